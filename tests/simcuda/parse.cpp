// Reads PTX text: modules, kernels, what they declare. What is not known is refused: an instruction, a modifier, a directive.
#include "decode.h"

namespace {

class Parser {
public:
    Parser(std::string_view text, const Place& place) : tokens(text), place(place) {}

    Program parse() try {
        while (!tokens.at_end()) {
            const std::string_view word = tokens.next();
            if (word == ".section") break;
            if (skips_line(word) || word == ".visible" || word == ".weak" || word == ".extern" || word == ".common") continue;
            if (word == ".entry")
                read_kernel();
            else if (word == ".func")
                skip_function();
            else if (word == ".global" || word == ".const" || word == ".shared")
                read_variable(word);
            else
                unknown(word, "an unknown directive");
        }
        return std::move(program);
    } catch (const ParseError& error) {
        const std::string where = kernel ? kernel->name + ": " : "";
        throw ParseError(where + error.what() + ", line " + std::to_string(tokens.line()) + " of the PTX");
    }

private:
    bool skips_line(std::string_view word) {
        static const std::set<std::string_view> directives = {".version",      ".target",  ".address_size", ".file",
                                                              ".minnctapersm", ".maxnreg", ".reqntid"};
        if (!directives.contains(word)) return false;
        tokens.skip_line();
        return true;
    }

    void skip_function() {
        while (tokens.peek() != "{" && tokens.peek() != ";") tokens.next();
        int depth = 0;
        do {
            const std::string_view word = tokens.next();
            depth += (word == "{") - (word == "}");
        } while (depth);
    }

    // `.align 4 .b8 name[8] = {…};`, after the word for its space
    void read_variable(std::string_view space) {
        u64 alignment = 1, count = 1;
        u32 each = 0;
        std::string_view name;
        bool open = false;
        std::vector<u8> content;
        for (std::string_view word = tokens.next(); word != ";"; word = tokens.next()) {
            if (word == ".align") {
                alignment = number(tokens.next());
            } else if (word == "[") {
                open = tokens.peek() == "]";
                if (!open) count = number(tokens.next());
                tokens.expect("]");
            } else if (word == "=") {
                const bool list = tokens.peek() == "{";
                if (list) tokens.next();
                do {
                    if (tokens.peek() == ",") tokens.next();
                    const u64 value = number(tokens.next());
                    for (u32 byte = 0; byte < each; ++byte) content.push_back(static_cast<u8>(value >> 8 * byte));
                } while (tokens.peek() == ",");
                if (list) tokens.expect("}");
            } else if (word.starts_with('.')) {
                const auto type = TYPES.find(word.substr(1));
                if (type == TYPES.end()) unknown(word, "a variable of an unknown type");
                each = bytes_of(type->second);
            } else {
                name = word;
            }
        }
        if (!each || name.empty()) unknown(name, "a variable without a type");
        const u64 size = each * count;
        alignment = std::max<u64>(alignment, each);
        if (space == ".shared") {
            if (open)
                names.dynamic[std::string(name)] = alignment;
            else if (kernel)
                names.place_shared(name, {size, alignment});
            else
                names.shared[std::string(name)] = {size, alignment};
        } else if (space == ".local") {
            const u64 at = aligned(kernel->local_bytes, alignment);
            names.symbols[std::string(name)] = LOCAL_WINDOW | at;
            kernel->local_bytes = static_cast<u32>(at + size);
        } else {
            if (!place) return;  // unless an instruction names it, nothing is wrong with it
            content.resize(size);
            program.variables[std::string(name)] = {place(size), size, content};
        }
    }

    void read_kernel() {
        const std::string name(tokens.next());
        kernel = &program.kernels[name];
        kernel->name = name;
        names.begin(*kernel);
        labels.clear();
        line = 0;
        if (tokens.peek() == "(") read_parameters();
        while (tokens.peek() != "{") {
            const std::string_view word = tokens.next();
            if (word == ".maxntid") {
                u32 most = 1;
                do {
                    if (tokens.peek() == ",") tokens.next();
                    most *= static_cast<u32>(number(tokens.next()));
                } while (tokens.peek() == ",");
                kernel->most_threads = most;
            } else if (word == ".pragma") {
                while (tokens.next() != ";") {
                }
            } else if (!skips_line(word)) {
                unknown(word, "an unknown directive");
            }
        }
        read_body();
        finish();
    }

    void read_parameters() {
        u64 at = 0;
        tokens.expect("(");
        while (tokens.peek() != ")") {
            if (tokens.peek() == ",") tokens.next();
            tokens.expect(".param");
            u64 alignment = 0, size = 0;
            std::string_view name;
            for (bool pointer = false; tokens.peek() != "," && tokens.peek() != ")";) {
                const std::string_view word = tokens.next();
                if (word == ".ptr") {
                    pointer = true;  // what follows is of the memory that it points to
                } else if (word == ".align") {
                    const u64 value = number(tokens.next());
                    if (!pointer) alignment = value;
                } else if (word == "[") {
                    size *= number(tokens.next());
                    tokens.expect("]");
                } else if (!word.starts_with('.')) {
                    name = word;
                } else if (const auto type = TYPES.find(word.substr(1)); type != TYPES.end()) {
                    size = bytes_of(type->second);
                }
            }
            if (!size) unknown(name, "a parameter without a type");
            at = aligned(at, alignment ? alignment : size);
            names.symbols[std::string(name)] = at;
            kernel->parameters.push_back({std::string(name), static_cast<u32>(at), static_cast<u32>(size)});
            at += size;
        }
        tokens.expect(")");
        kernel->parameter_bytes = static_cast<u32>(at);
    }

    void read_body() {
        tokens.expect("{");
        for (int depth = 1; depth;) {
            const std::string_view word = tokens.next();
            if (word == "{") {
                ++depth;
            } else if (word == "}") {
                --depth;
            } else if (word == ".reg") {
                read_registers();
            } else if (word == ".loc") {
                tokens.next();
                line = static_cast<s32>(number(tokens.next()));
                tokens.skip_line();
            } else if (word == ".pragma") {
                while (tokens.next() != ";") {
                }
            } else if (word == ".shared" || word == ".local") {
                read_variable(word);
            } else if (tokens.peek() == ":") {
                tokens.next();
                labels[std::string(word)] = static_cast<s32>(kernel->code.size());
            } else {
                read_instruction(word);
            }
        }
    }

    void read_registers() {
        const std::string_view kind = tokens.next();
        const auto type = TYPES.find(kind.substr(1));
        if (type == TYPES.end()) unknown(kind, "registers of an unknown type");
        const u64 mask = ones(bytes_of(type->second));
        do {
            if (tokens.peek() == ",") tokens.next();
            const std::string name(tokens.next());
            if (tokens.peek() != "<") {
                names.add(name, {name, mask});
                continue;
            }
            tokens.expect("<");
            const u64 count = number(tokens.next());
            tokens.expect(">");
            for (u64 each = 0; each < count; ++each) names.add(name + std::to_string(each), {name + std::to_string(each), mask});
        } while (tokens.peek() == ",");
        tokens.expect(";");
    }

    void finish() {
        for (Instruction& in : kernel->code) {
            if (in.control != Control::Branch) continue;
            const auto label = labels.find(in.text.substr(in.text.find_last_of(" \t") + 1));
            if (label == labels.end()) unknown(in.text, "there is no such label");
            in.target = label->second;
        }
        // A kernel falls off its end as it returns; `ret` stands there, unless a loop does.
        if (kernel->code.empty() || kernel->code.back().control != Control::Return) {
            Instruction& end = kernel->code.emplace_back();
            end.control = Control::Return;
            end.text = "the end";
        }
        names.end();
        for (std::size_t number = 0; number < kernel->code.size(); ++number)
            kernel->code[number].number = static_cast<s32>(number);
        kernel->executed.resize(kernel->code.size());
        kernel = nullptr;
    }

    Operand read_operand() {
        Operand operand;
        const std::string_view first = tokens.next();
        if (first == "{" || first == "[") {
            operand.kind = first[0];
            const std::string_view closing = first == "{" ? "}" : "]";
            while (tokens.peek() != closing) {
                if (tokens.peek() == "," && operand.kind == '{') tokens.next();
                if (tokens.peek() == "+" && operand.kind == '[') {
                    tokens.next();
                    operand.offset = static_cast<s64>(number(tokens.next()));
                } else {
                    operand.names.push_back(tokens.next());
                }
            }
            tokens.expect(closing);
        } else if (first == "!") {
            operand.kind = '!';
            operand.names = {tokens.next()};
        } else {
            operand.names = {first};
            if (tokens.peek() == "|") {
                tokens.next();
                operand.kind = '|';
                operand.names.push_back(tokens.next());
            }
        }
        return operand;
    }

    void read_instruction(std::string_view first) {
        const char* const begin = first.data();
        Instruction in;
        in.line = line;
        if (first == "@") {
            in.negated = tokens.peek() == "!";
            if (in.negated) tokens.next();
            in.predicate = names.register_of(tokens.next());
            first = tokens.next();
        }
        operands.clear();
        while (tokens.peek() != ";") {
            operands.push_back(read_operand());
            if (tokens.peek() == ",")
                tokens.next();
            else
                break;
        }
        const std::string_view text(begin, static_cast<std::size_t>(tokens.peek().data() - begin));
        in.text = collapsed(text);
        if (tokens.peek() != ";") unknown(in.text, "no end");
        tokens.next();
        Words words(first);
        decode(in, words, operands, names, *kernel);
        kernel->code.push_back(std::move(in));
    }

    Tokens tokens;
    const Place& place;
    Program program;
    Kernel* kernel = nullptr;
    s32 line = 0;
    std::vector<Operand> operands;
    std::map<std::string, s32> labels;
    Names names{program};
};

}  // namespace

Program parse(std::string_view text, const Place& place) { return Parser(text, place).parse(); }
