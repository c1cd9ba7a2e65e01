// The tokens of PTX text: words (names, numbers, opcodes with their dots), strings and punctuation, without comments.
#pragma once
#include <cctype>

#include "program.h"

class Tokens {
public:
    explicit Tokens(std::string_view text) : text(text) { find(); }

    bool at_end() const { return current.empty(); }
    std::string_view peek() const { return current; }
    int line() const { return current_line; }

    std::string_view next() {
        if (at_end()) throw ParseError("the PTX ends too early");
        const std::string_view token = current;
        find();
        return token;
    }

    void expect(std::string_view token) {
        if (current != token) {
            throw ParseError(std::string(token) + " is expected, not " + std::string(current));
        }
        find();
    }

    // Drops the tokens that follow the last one on its line.
    void skip_line() {
        const int line = last_line;
        while (!at_end() && current_line == line) find();
    }

private:
    static bool in_word(char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
    }

    void find() {
        last_line = current_line;
        skip_blanks();
        const std::size_t begin = at;
        if (at < text.size() && text[at] == '"') {
            at = std::min(text.find('"', at + 1), text.size() - 1) + 1;
        } else if (at < text.size() &&
                   (in_word(text[at]) || (text[at] == '-' && at + 1 < text.size() && in_word(text[at + 1])))) {
            for (++at; at < text.size(); ++at) {
                if (text.substr(at, 2) == "::")
                    ++at;  // as in L1::no_allocate
                else if (!in_word(text[at]))
                    break;
            }
        } else if (at < text.size()) {
            ++at;
        }
        current = text.substr(begin, at - begin);
    }

    void skip_blanks() {
        while (at < text.size()) {
            if (text.substr(at, 2) == "//") {
                at = std::min(text.find('\n', at), text.size());
            } else if (text.substr(at, 2) == "/*") {
                const std::size_t end = std::min(text.find("*/", at), text.size() - 2) + 2;
                for (; at < end; ++at) current_line += text[at] == '\n';
            } else if (std::isspace(static_cast<unsigned char>(text[at]))) {
                current_line += text[at++] == '\n';
            } else if (!text[at]) {
                at = text.size();
            } else {
                return;
            }
        }
    }

    std::string_view text, current;
    std::size_t at = 0;
    int current_line = 1, last_line = 1;
};

// Text with each run of blanks as one space.
inline std::string collapsed(std::string_view text) {
    std::string result;
    for (const char c : text) {
        const bool blank = std::isspace(static_cast<unsigned char>(c));
        if (!blank)
            result += c;
        else if (!result.empty() && result.back() != ' ')
            result += ' ';
    }
    if (result.ends_with(' ')) result.pop_back();
    return result;
}
