// Registers, symbols and numbers.
#include "names.h"

#include <charconv>

namespace {

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

}  // namespace

u64 number(std::string_view text) {
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
    if (error != std::errc{} || end != text.data() + text.size()) unknown(text, "no register, symbol or number");
    return negative ? 0 - value : value;
}

void Names::begin(Kernel& of) {
    kernel = &of;
    numbers.clear();
    symbols.clear();
}

void Names::end() {
    for (const auto& [_, alignment] : dynamic)
        kernel->static_shared = static_cast<u32>(aligned(kernel->static_shared, alignment));
    for (const auto& [name, _] : dynamic) {
        if (const auto found = numbers.find(name); found != numbers.end())
            kernel->registers[static_cast<std::size_t>(found->second)].value = kernel->static_shared;
    }
}

u64 Names::place_shared(std::string_view name, Memory memory) {
    const u64 at = aligned(kernel->static_shared, memory.alignment);
    symbols[std::string(name)] = at;
    kernel->static_shared = static_cast<u32>(at + memory.size);
    return at;
}

s32 Names::add(const std::string& name, Register value) {
    numbers[name] = static_cast<s32>(kernel->registers.size());
    kernel->registers.push_back(std::move(value));
    return numbers[name];
}

// The number of a register. A constant, a symbol and a special register become registers that are set.
s32 Names::register_of(std::string_view name) {
    const std::string key(name);
    if (const auto found = numbers.find(key); found != numbers.end()) return found->second;
    if (const auto special = SPECIAL.find(name); special != SPECIAL.end()) {
        return add(key, {key, ones(4), special->second.initial, special->second.dimension});
    }
    return add(key, {key, ~u64{0}, Initial::Constant, 0, symbol(name, key)});
}

u64 Names::symbol(std::string_view name, const std::string& key) {
    if (const auto found = symbols.find(key); found != symbols.end()) return found->second;
    if (const auto found = shared.find(key); found != shared.end()) return place_shared(name, found->second);
    if (const auto found = program.variables.find(name); found != program.variables.end()) return found->second.address;
    return dynamic.contains(key) ? 0 : name == "WARP_SZ" ? LANES : number(name);
}

// The register of a result, NONE for `_`.
s32 Names::result_of(std::string_view name) const {
    if (name == "_") return NONE;
    const auto found = numbers.find(std::string(name));
    if (found == numbers.end()) unknown(name, "no register");
    return found->second;
}
