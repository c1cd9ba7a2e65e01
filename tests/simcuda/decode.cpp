// What an instruction's text says, and the function that executes it.
#include "decode.h"

namespace {

const std::set<std::string_view> DIRECTED = {"add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt"};

class Decoder {
public:
    Decoder(const std::vector<Operand>& operands, Names& names, Kernel& kernel)
        : operands(operands), names(names), kernel(kernel) {}

    // Fills in what the words and the operands say. Returns whether they are known.
    bool all(Instruction& in, Words& words) {
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
            kernel.waits = true;
            return operands.size() == 1 && operands[0].names[0] == "0";
        }
        if (base == "bar" || base == "shfl" || base == "vote") return decode_collective(in, words);
        if (base == "activemask") {
            in.run = active_lanes;
            in.result[0] = names.result_of(name(in, 0));
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
            in.result[0] = names.result_of(name(in, 0));
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
        in.result[0] = names.result_of(name(in, 0));
        sources(in, 1, static_cast<std::size_t>(many));
        return true;
    }

private:
    void count(const Instruction& in, std::size_t least, std::size_t most) const {
        if (operands.size() < least || operands.size() > most) unknown(in.text, "another number of operands");
    }

    std::string_view name(const Instruction& in, std::size_t number) const {
        if (number >= operands.size() || operands[number].names.size() != 1) unknown(in.text, "another kind of operand");
        return operands[number].names[0];
    }

    void sources(Instruction& in, std::size_t first, std::size_t many) {
        count(in, first + many, first + many);
        for (std::size_t each = 0; each < many; ++each) in.source[each] = names.register_of(name(in, first + each));
    }

    bool decode_collective(Instruction& in, Words& words) {
        in.control = Control::Collective;
        if (words.base == "bar") {
            in.run = collective("bar.warp");
            in.members = names.register_of(name(in, 0));
            return operands.size() == 1;
        }
        std::string full(words.base);
        for (const std::string_view word : {"down", "up", "bfly", "idx", "ballot", "any", "all", "uni"}) {
            if (words.take(word)) (full += '.') += word;
        }
        in.run = collective(full);
        const std::size_t many = words.base == "shfl" ? 3 : 1;
        count(in, many + 2, many + 2);
        in.result[0] = names.result_of(operands[0].names[0]);
        if (operands[0].kind == '|') in.result[1] = names.result_of(operands[0].names[1]);
        in.negates = operands[1].kind == '!';
        for (std::size_t each = 0; each < many; ++each) in.source[each] = names.register_of(name(in, each + 1));
        in.members = names.register_of(name(in, many + 1));
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
        in.source[0] = names.register_of(to.names[0]);
        in.offset = to.offset;
        for (int part = 0; part < in.parts; ++part)
            in.result[part] = in.stores ? names.register_of(values.names[part]) : names.result_of(values.names[part]);
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
        if (first) in.result[0] = names.result_of(name(in, 0));
        const Operand& to = operands[first];
        if (to.kind != '[' || to.names.size() != 1) return false;
        in.source[0] = names.register_of(to.names[0]);
        in.offset = to.offset;
        for (std::size_t each = 0; each < many; ++each) in.source[each + 1] = names.register_of(name(in, first + 1 + each));
        return in.run != nullptr;
    }

    bool decode_move(Instruction& in, Type type) {
        count(in, 2, 2);
        const Operand &to = operands[0], &from = operands[1];
        if (to.kind != '{' && from.kind != '{') {
            in.run = move;
            in.result[0] = names.result_of(name(in, 0));
            in.source[0] = names.register_of(name(in, 1));
            return true;
        }
        const Operand& parts = to.kind == '{' ? to : from;
        if (parts.names.size() < 2 || parts.names.size() > 4) return false;
        in.parts = static_cast<u8>(parts.names.size());
        in.bytes = static_cast<u8>(bytes_of(type) / in.parts);
        in.run = to.kind == '{' ? unpack : pack;
        if (to.kind == '{')
            in.source[0] = names.register_of(name(in, 1));
        else
            in.result[0] = names.result_of(name(in, 0));
        for (int part = 0; part < in.parts; ++part) {
            if (to.kind == '{')
                in.result[part] = names.result_of(parts.names[part]);
            else
                in.source[part] = names.register_of(parts.names[part]);
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
        in.result[0] = names.result_of(name(in, 0));
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
        in.result[0] = names.result_of(operands[0].names[0]);
        if (operands[0].kind == '|') in.result[1] = names.result_of(operands[0].names[1]);
        for (std::size_t each = 1; each < operands.size(); ++each) in.source[each - 1] = names.register_of(name(in, each));
        in.negates = in.join != Join::None && operands[3].kind == '!';
        return in.run && types.size() == (words.base == "setp" ? 1 : 2);
    }

    const std::vector<Operand>& operands;
    Names& names;
    Kernel& kernel;
};

}  // namespace

void decode(Instruction& in, Words& words, const std::vector<Operand>& operands, Names& names, Kernel& kernel) {
    if (!Decoder(operands, names, kernel).all(in, words)) unknown(in.text, "an unknown instruction, or one of another type");
    if (const std::string_view left = words.left(); !left.empty()) unknown(in.text, "an unknown modifier: " + std::string(left));
}
