// Reads PTX text. What is not known is refused: an instruction, a modifier, a directive.
#include <algorithm>
#include <charconv>
#include <set>

#include "tokens.h"

namespace {

// Modifiers that say how to cache or order an access, or what the opcode and the operands already tell.
const std::set<std::string_view> IGNORED = {"nc",   "cs",      "ca",      "cg",      "cv",      "lu",       "wb",     "wt",
                                            "weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "gpu",    "sys",
                                            "cta",  "sync",    "aligned", "lo",      "wrap",    "rn",       "approx", "full"};

const std::set<std::string_view> DIRECTED = {"add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt"};

const std::map<std::string_view, Type> TYPES = {
    {"pred", Type::Predicate}, {"u8", Type::U8},    {"b8", Type::U8},   {"u16", Type::U16}, {"b16", Type::U16},
    {"u32", Type::U32},        {"b32", Type::U32},  {"u64", Type::U64}, {"b64", Type::U64}, {"s8", Type::S8},
    {"s16", Type::S16},        {"s32", Type::S32},  {"s64", Type::S64}, {"f16", Type::F16}, {"f32", Type::F32},
    {"f64", Type::F64},        {"bf16", Type::BF16}};

struct Special {
    Initial initial;
    int dimension = 0;
};
const std::map<std::string_view, Special> SPECIAL = {
    {"%tid.x", {Initial::Thread, 0}},       {"%ntid.x", {Initial::BlockSize, 0}}, {"%ctaid.x", {Initial::Block, 0}},
    {"%tid.y", {Initial::Thread, 1}},       {"%ntid.y", {Initial::BlockSize, 1}}, {"%ctaid.y", {Initial::Block, 1}},
    {"%tid.z", {Initial::Thread, 2}},       {"%ntid.z", {Initial::BlockSize, 2}}, {"%ctaid.z", {Initial::Block, 2}},
    {"%nctaid.x", {Initial::Grid, 0}},      {"%nctaid.y", {Initial::Grid, 1}},    {"%nctaid.z", {Initial::Grid, 2}},
    {"%laneid", {Initial::Lane}},           {"%warpid", {Initial::WarpNumber}},   {"%lanemask_eq", {Initial::LanesEqual}},
    {"%lanemask_lt", {Initial::LanesBelow}}};

constexpr u64 aligned(u64 at, u64 alignment) { return (at + alignment - 1) / alignment * alignment; }
constexpr u64 ones(u32 bytes) { return bytes ? ~u64{0} >> (64 - 8 * bytes) : 1; }

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

class Parser {
public:
    Parser(std::string_view text, const Place& place) : tokens(text), place(place) {}

    Program parse() {
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
                fail(word, "an unknown directive");
        }
        return std::move(program);
    }

private:
    struct Memory {
        u64 size, alignment;
    };

    [[noreturn]] void fail(std::string_view what, const std::string& why) const {
        const std::string where = kernel ? kernel->name + ": " : "";
        throw ParseError(where + "the interpreter does not know this: " + collapsed(what) + " (" + why + ", line " +
                         std::to_string(tokens.line()) + " of the PTX)");
    }

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

    u64 number(std::string_view text) const {
        const bool negative = text.starts_with('-');
        if (negative) text.remove_prefix(1);
        if (text.ends_with('U')) text.remove_suffix(1);
        int base = 10;
        if (text.size() > 2 && text[0] == '0') {
            const char letter = static_cast<char>(std::tolower(text[1]));
            base = letter == 'x' || letter == 'f' || letter == 'd' ? 16 : letter == 'b' ? 2 : 8;
            if (base != 8) text.remove_prefix(2);
        }
        u64 value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
        if (error != std::errc{} || end != text.data() + text.size()) fail(text, "no register, symbol or number");
        return negative ? 0 - value : value;
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
                if (type == TYPES.end()) fail(word, "a variable of an unknown type");
                each = bytes_of(type->second);
            } else {
                name = word;
            }
        }
        if (!each || name.empty()) fail(name, "a variable without a type");
        const u64 size = each * count;
        alignment = std::max<u64>(alignment, each);
        if (space == ".shared") {
            if (open)
                dynamic[std::string(name)] = alignment;
            else if (kernel)
                place_shared(name, {size, alignment});
            else
                shared[std::string(name)] = {size, alignment};
        } else if (space == ".local") {
            const u64 at = aligned(kernel->local_bytes, alignment);
            symbols[std::string(name)] = LOCAL_WINDOW | at;
            kernel->local_bytes = static_cast<u32>(at + size);
        } else {
            if (!place) return;  // unless an instruction names it, nothing is wrong with it
            content.resize(size);
            program.variables[std::string(name)] = {place(size), size, content};
        }
    }

    u64 place_shared(std::string_view name, Memory memory) {
        const u64 at = aligned(kernel->static_shared, memory.alignment);
        symbols[std::string(name)] = at;
        kernel->static_shared = static_cast<u32>(at + memory.size);
        return at;
    }

    void read_kernel() {
        const std::string name(tokens.next());
        kernel = &program.kernels[name];
        kernel->name = name;
        numbers.clear();
        symbols.clear();
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
                fail(word, "an unknown directive");
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
            if (!size) fail(name, "a parameter without a type");
            at = aligned(at, alignment ? alignment : size);
            symbols[std::string(name)] = at;
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
        if (type == TYPES.end()) fail(kind, "registers of an unknown type");
        const u64 mask = ones(bytes_of(type->second));
        do {
            if (tokens.peek() == ",") tokens.next();
            const std::string name(tokens.next());
            if (tokens.peek() != "<") {
                add(name, {name, mask});
                continue;
            }
            tokens.expect("<");
            const u64 count = number(tokens.next());
            tokens.expect(">");
            for (u64 each = 0; each < count; ++each) add(name + std::to_string(each), {name + std::to_string(each), mask});
        } while (tokens.peek() == ",");
        tokens.expect(";");
    }

    void finish() {
        for (Instruction& in : kernel->code) {
            if (in.control != Control::Branch) continue;
            const auto label = labels.find(in.text.substr(in.text.find_last_of(" \t") + 1));
            if (label == labels.end()) fail(in.text, "there is no such label");
            in.target = label->second;
        }
        // A kernel falls off its end as it returns; `ret` stands there, unless a loop does.
        if (kernel->code.empty() || kernel->code.back().control != Control::Return) {
            Instruction& end = kernel->code.emplace_back();
            end.control = Control::Return;
            end.text = "the end";
        }
        for (const auto& [_, alignment] : dynamic)
            kernel->static_shared = static_cast<u32>(aligned(kernel->static_shared, alignment));
        for (const auto& [name, _] : dynamic) {
            if (const auto found = numbers.find(name); found != numbers.end())
                kernel->registers[found->second].value = kernel->static_shared;
        }
        for (std::size_t number = 0; number < kernel->code.size(); ++number)
            kernel->code[number].number = static_cast<s32>(number);
        kernel->executed.resize(kernel->code.size());
        kernel = nullptr;
    }

    s32 add(const std::string& name, Register value) {
        numbers[name] = static_cast<s32>(kernel->registers.size());
        kernel->registers.push_back(std::move(value));
        return numbers[name];
    }

    // The number of a register. A constant, a symbol and a special register become registers that are set.
    s32 register_of(std::string_view name) {
        const std::string key(name);
        if (const auto found = numbers.find(key); found != numbers.end()) return found->second;
        if (const auto special = SPECIAL.find(name); special != SPECIAL.end()) {
            return add(key, {key, ones(4), special->second.initial, special->second.dimension});
        }
        return add(key, {key, ~u64{0}, Initial::Constant, 0, symbol(name, key)});
    }

    u64 symbol(std::string_view name, const std::string& key) {
        if (const auto found = symbols.find(key); found != symbols.end()) return found->second;
        if (const auto found = shared.find(key); found != shared.end()) return place_shared(name, found->second);
        if (const auto found = program.variables.find(name); found != program.variables.end()) return found->second.address;
        return dynamic.contains(key) ? 0 : name == "WARP_SZ" ? LANES : number(name);
    }

    // The register of a result, NONE for `_`.
    s32 result_of(std::string_view name) {
        if (name == "_") return NONE;
        const auto found = numbers.find(std::string(name));
        if (found == numbers.end()) fail(name, "no register");
        return found->second;
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
            in.predicate = register_of(tokens.next());
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
        if (tokens.peek() != ";") fail(in.text, "no end");
        tokens.next();
        Words words(first);
        if (!decode(in, words)) fail(in.text, "an unknown instruction, or one of another type");
        if (const std::string_view left = words.left(); !left.empty()) fail(in.text, "an unknown modifier: " + std::string(left));
        kernel->code.push_back(std::move(in));
    }

    void count(const Instruction& in, std::size_t least, std::size_t most) const {
        if (operands.size() < least || operands.size() > most) fail(in.text, "another number of operands");
    }

    std::string_view name(const Instruction& in, std::size_t number) const {
        if (number >= operands.size() || operands[number].names.size() != 1) fail(in.text, "another kind of operand");
        return operands[number].names[0];
    }

    void sources(Instruction& in, std::size_t first, std::size_t many) {
        count(in, first + many, first + many);
        for (std::size_t each = 0; each < many; ++each) in.source[each] = register_of(name(in, first + each));
    }

    // Fills in what the words and the operands say. Returns whether they are known.
    bool decode(Instruction& in, Words& words) {
        const std::string_view base = words.base;
        const std::vector<Type> types = words.types();
        const Type type = types.empty() ? Type::U32 : types.back();
        if (base == "ret" || base == "exit") {
            in.control = Control::Return;
            return operands.empty();
        }
        if (base == "bra") {
            in.control = Control::Branch;
            in.uniform = words.take("uni");
            return operands.size() == 1;
        }
        if ((base == "bar" || base == "barrier") && !words.take("warp")) {
            in.control = Control::Barrier;
            kernel->waits = true;
            return operands.size() == 1 && operands[0].names[0] == "0";
        }
        if (base == "bar" || base == "shfl" || base == "vote") return decode_collective(in, words);
        if (base == "activemask") {
            in.run = active_lanes;
            in.result[0] = result_of(name(in, 0));
            return true;
        }
        if (base == "membar" || base == "fence" || base == "prefetch") {
            in.run = nothing;
            words.choose<int>({{"gl", 0}, {"sc", 0}, {"global", 0}}, 0);
            return true;
        }
        if (base == "trap" || base == "brkpt") {
            in.run = trap;
            return true;
        }
        if (types.empty()) return false;
        const auto has = [&](Type one) { return std::find(types.begin(), types.end(), one) != types.end(); };
        const bool rounds = DIRECTED.contains(base) && type >= Type::F16 && !has(Type::F16) && !has(Type::BF16);
        if (has(Type::F32) || (base == "rcp" && type == Type::F64)) in.flushes = words.take("ftz");
        if (rounds ||
            (base == "cvt" && (types[0] == Type::F32 || types[0] == Type::F64) && !has(Type::F16) && !has(Type::BF16))) {
            in.direction = words.choose<int>({{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}, FE_TONEAREST);
        }
        if (base == "ld" || base == "ldu" || base == "st") return decode_access(in, words, type);
        if (base == "atom" || base == "red") return decode_atomic(in, words, type);
        if (base == "mov") return decode_move(in, type);
        if (base == "cvta") {
            const bool is_shared = words.take("shared") || words.take("shared::cta");
            if (!is_shared && !words.take("global") && !words.take("local")) return false;
            in.run = is_shared ? to_shared_window : move;
            if (words.take("to")) in.run = move;
            in.result[0] = result_of(name(in, 0));
            sources(in, 1, 1);
            return true;
        }
        if (base == "cvt") return decode_conversion(in, words, types);
        if (base == "setp" || base == "set") return decode_comparison(in, words, types);
        std::string name_of(base);
        for (const std::string_view word : {"hi", "wide", "l", "r", "clamp"}) {
            if (words.take(word)) (name_of += '.') += word;
        }
        int many = 0;
        in.run = handler_of(name_of, type, many);
        if (!in.run) return false;
        in.result[0] = result_of(name(in, 0));
        sources(in, 1, static_cast<std::size_t>(many));
        return true;
    }

    bool decode_collective(Instruction& in, Words& words) {
        in.control = Control::Collective;
        if (words.base == "bar") {
            in.run = collective("bar.warp");
            in.members = register_of(name(in, 0));
            return operands.size() == 1;
        }
        std::string full(words.base);
        for (const std::string_view word : {"down", "up", "bfly", "idx", "ballot", "any", "all", "uni"}) {
            if (words.take(word)) (full += '.') += word;
        }
        in.run = collective(full);
        const std::size_t many = words.base == "shfl" ? 3 : 1;
        count(in, many + 2, many + 2);
        in.result[0] = result_of(operands[0].names[0]);
        if (operands[0].kind == '|') in.result[1] = result_of(operands[0].names[1]);
        in.negates = operands[1].kind == '!';
        for (std::size_t each = 0; each < many; ++each) in.source[each] = register_of(name(in, each + 1));
        in.members = register_of(name(in, many + 1));
        return in.run != nullptr;
    }

    bool decode_access(Instruction& in, Words& words, Type type) {
        in.stores = words.base == "st";
        in.space = words.choose<Space>({{"global", Space::Global},
                                        {"shared", Space::Shared},
                                        {"shared::cta", Space::Shared},
                                        {"param", Space::Parameter},
                                        {"local", Space::Local},
                                        {"const", Space::Global}},
                                       Space::Generic);
        in.parts = words.choose<u8>({{"v2", 2}, {"v4", 4}}, 1);
        in.bytes = static_cast<u8>(bytes_of(type));
        in.is_signed = type >= Type::S8 && type <= Type::S64;
        count(in, 2, 2);
        const Operand &to = operands[in.stores ? 0 : 1], &values = operands[in.stores ? 1 : 0];
        if (to.kind != '[' || to.names.size() != 1 || values.names.size() != in.parts || !in.bytes) return false;
        in.source[0] = register_of(to.names[0]);
        in.offset = to.offset;
        for (int part = 0; part < in.parts; ++part)
            in.result[part] = in.stores ? register_of(values.names[part]) : result_of(values.names[part]);
        in.run = in.stores ? store : load;
        return !(in.stores && in.space == Space::Parameter);
    }

    bool decode_atomic(Instruction& in, Words& words, Type type) {
        in.space = words.choose<Space>({{"global", Space::Global}, {"shared", Space::Shared}, {"shared::cta", Space::Shared}},
                                       Space::Generic);
        words.take("noftz");
        std::string_view what;
        for (const std::string_view word : {"add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec"}) {
            if (words.take(word)) what = word;
        }
        in.run = atomic(what, type);
        in.bytes = static_cast<u8>(bytes_of(type));
        const std::size_t first = words.base == "atom", many = what == "cas" ? 2 : 1;
        count(in, first + 1 + many, first + 1 + many);
        if (first) in.result[0] = result_of(name(in, 0));
        const Operand& to = operands[first];
        if (to.kind != '[' || to.names.size() != 1) return false;
        in.source[0] = register_of(to.names[0]);
        in.offset = to.offset;
        for (std::size_t each = 0; each < many; ++each) in.source[each + 1] = register_of(name(in, first + 1 + each));
        return in.run != nullptr;
    }

    bool decode_move(Instruction& in, Type type) {
        count(in, 2, 2);
        const Operand &to = operands[0], &from = operands[1];
        if (to.kind != '{' && from.kind != '{') {
            in.run = move;
            in.result[0] = result_of(name(in, 0));
            in.source[0] = register_of(name(in, 1));
            return true;
        }
        const Operand& parts = to.kind == '{' ? to : from;
        if (parts.names.size() < 2 || parts.names.size() > 4) return false;
        in.parts = static_cast<u8>(parts.names.size());
        in.bytes = static_cast<u8>(bytes_of(type) / in.parts);
        in.run = to.kind == '{' ? unpack : pack;
        if (to.kind == '{')
            in.source[0] = register_of(name(in, 1));
        else
            in.result[0] = result_of(name(in, 0));
        for (int part = 0; part < in.parts; ++part) {
            if (to.kind == '{')
                in.result[part] = result_of(parts.names[part]);
            else
                in.source[part] = register_of(parts.names[part]);
        }
        return true;
    }

    bool decode_conversion(Instruction& in, Words& words, const std::vector<Type>& types) {
        if (types.size() != 2) return false;
        in.rounding = words.choose<Rounding>(
            {{"rni", Rounding::Nearest}, {"rzi", Rounding::Zero}, {"rmi", Rounding::Down}, {"rpi", Rounding::Up}},
            Rounding::Default);
        in.saturates = words.take("sat");
        in.run = conversion(types[0], types[1]);
        in.result[0] = result_of(name(in, 0));
        sources(in, 1, 1);
        return in.run != nullptr;
    }

    bool decode_comparison(Instruction& in, Words& words, const std::vector<Type>& types) {
        static constexpr std::string_view NAMES[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                                     "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
        std::string_view which;
        for (const std::string_view word : NAMES) {
            if (which.empty() && words.take(word)) which = word;
        }
        in.run = comparison(which, types.back());
        in.join = words.choose<Join>({{"and", Join::And}, {"or", Join::Or}, {"xor", Join::Xor}}, Join::None);
        in.offset = words.base == "setp" ? 1 : types[0] == Type::F32 ? 0x3f800000 : -1;
        count(in, in.join == Join::None ? 3 : 4, in.join == Join::None ? 3 : 4);
        in.result[0] = result_of(operands[0].names[0]);
        if (operands[0].kind == '|') in.result[1] = result_of(operands[0].names[1]);
        for (std::size_t each = 1; each < operands.size(); ++each) in.source[each - 1] = register_of(name(in, each));
        in.negates = in.join != Join::None && operands[3].kind == '!';
        return in.run && types.size() == (words.base == "setp" ? 1 : 2);
    }

    Tokens tokens;
    const Place& place;
    Program program;
    Kernel* kernel = nullptr;
    s32 line = 0;
    std::vector<Operand> operands;
    std::map<std::string, s32> numbers, labels;
    std::map<std::string, u64> symbols, dynamic;
    std::map<std::string, Memory> shared;
};

}  // namespace

Program parse(std::string_view text, const Place& place) { return Parser(text, place).parse(); }
