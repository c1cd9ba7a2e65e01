// An instruction's text, taken apart: the words of its opcode and its operands.
#pragma once
#include <algorithm>

#include "names.h"

// Modifiers that say how to cache or order an access, or what the opcode and the operands already tell.
inline const std::set<std::string_view> IGNORED = {
    "nc",      "cs",       "ca",  "cg",  "cv",  "lu",   "wb",      "wt", "weak", "relaxed", "acquire", "release",
    "acq_rel", "volatile", "gpu", "sys", "cta", "sync", "aligned", "lo", "wrap", "rn",      "approx",  "full"};

// The dot-separated words of an opcode. Each is taken once; those that nobody takes must be known to say nothing.
class Words {
public:
    explicit Words(std::string_view opcode) {
        for (std::size_t at = 0; at <= opcode.size();) {
            const std::size_t dot = std::min(opcode.find('.', at), opcode.size());
            words.push_back(opcode.substr(at, dot - at));
            at = dot + 1;
        }
        base = words.front();
        words.erase(words.begin());
    }

    bool take(std::string_view word) {
        const auto found = std::find(words.begin(), words.end(), word);
        if (found == words.end()) return false;
        words.erase(found);
        return true;
    }

    // The value of the one word that the table has, `otherwise` without one.
    template <class T> T choose(std::initializer_list<std::pair<std::string_view, T>> table, T otherwise) {
        for (const auto& [word, value] : table) {
            if (take(word)) return value;
        }
        return otherwise;
    }

    // The types in order.
    std::vector<Type> types() {
        std::vector<Type> found;
        std::erase_if(words, [&](std::string_view word) {
            const auto type = TYPES.find(word);
            if (type != TYPES.end()) found.push_back(type->second);
            return type != TYPES.end();
        });
        return found;
    }

    // The first word that means something and was not taken, "" without one.
    std::string_view left() const {
        for (const std::string_view word : words) {
            const bool hint = word.starts_with("L1::") || word.starts_with("L2::");
            if (!hint && !IGNORED.contains(word)) return word;
        }
        return "";
    }

    std::string_view base;

private:
    std::vector<std::string_view> words;
};

// An operand: a name or number; `{a, b}`; `[a+8]`; `a|b`; `!a`.
struct Operand {
    std::vector<std::string_view> names;
    char kind = 0;  // '{', '[', '|', '!' or 0
    s64 offset = 0;
};

// Fills in what the words and the operands say. Raises ParseError for what is not known.
void decode(Instruction& in, Words& words, const std::vector<Operand>& operands, Names& names, Kernel& kernel);
