// What names of PTX text stand for: types, registers, symbols, numbers.
#pragma once
#include <map>
#include <set>

#include "tokens.h"

[[noreturn]] inline void unknown(std::string_view what, const std::string& why) {
    throw ParseError("the interpreter does not know this: " + collapsed(what) + " (" + why + ")");
}

inline const std::map<std::string_view, Type> TYPES = {
    {"pred", Type::Predicate}, {"u8", Type::U8},    {"b8", Type::U8},   {"u16", Type::U16}, {"b16", Type::U16},
    {"u32", Type::U32},        {"b32", Type::U32},  {"u64", Type::U64}, {"b64", Type::U64}, {"s8", Type::S8},
    {"s16", Type::S16},        {"s32", Type::S32},  {"s64", Type::S64}, {"f16", Type::F16}, {"f32", Type::F32},
    {"f64", Type::F64},        {"bf16", Type::BF16}};

constexpr u64 aligned(u64 at, u64 alignment) { return (at + alignment - 1) / alignment * alignment; }
constexpr u64 ones(u32 bytes) { return bytes ? ~u64{0} >> (64 - 8 * bytes) : 1; }

u64 number(std::string_view text);

// The registers of a kernel, and the symbols that it may name.
class Names {
public:
    struct Memory {
        u64 size, alignment;
    };

    explicit Names(Program& program) : program(program) {}

    void begin(Kernel& of);
    void end();  // when all static shared memory is known, dynamic one begins behind it
    s32 add(const std::string& name, Register value);
    s32 register_of(std::string_view name);
    s32 result_of(std::string_view name) const;
    u64 place_shared(std::string_view name, Memory memory);

    std::map<std::string, u64> symbols;    // of the kernel
    std::map<std::string, Memory> shared;  // memory that the module declares; a kernel has it if it names it
    std::map<std::string, u64> dynamic;    // alignments of memory of which a launch says how much there is

private:
    u64 symbol(std::string_view name, const std::string& key);

    Program& program;
    Kernel* kernel = nullptr;
    std::map<std::string, s32> numbers;
};
