// PTX as it is executed: `parse.cpp` reads it, `operations.cpp` says what instructions do.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "numbers.h"

constexpr int LANES = 32;
constexpr s32 NONE = -1;

class Warp;
struct Instruction;
typedef void (*Handler)(Warp&, const Instruction&, u32 mask);  // executes an instruction for the lanes in `mask`

enum class Type : u8 { Predicate, U8, U16, U32, U64, S8, S16, S32, S64, F16, F32, F64, BF16 };
enum class Space : u8 { Global, Shared, Parameter, Local, Generic };
enum class Control : u8 { None, Branch, Return, Barrier, Collective };  // collective: all lanes that it names must arrive
enum class Join : u8 { None, And, Or, Xor };                            // of a comparison with a predicate

// Generic addresses of these windows are of shared and local memory.
constexpr u64 SHARED_WINDOW = u64{0x7d} << 56, LOCAL_WINDOW = u64{0x7e} << 56, WINDOW = u64{0xff} << 56;

// Operands are numbers of registers, NONE where there is none. A constant is a register that never changes.
struct Instruction {
    Handler run = nullptr;
    Control control = Control::None;
    Space space = Space::Global;
    Rounding rounding = Rounding::Default;
    int direction = FE_TONEAREST;  // in which floating-point results are rounded
    Join join = Join::None;
    u8 parts = 1;            // registers of a vector
    u8 bytes = 0;            // of each of them
    bool is_signed = false;  // a load extends the sign
    bool stores = false;
    bool negated = false;  // the instruction is executed where `predicate` does not hold
    bool negates = false;  // of a comparison or vote: the predicate that it reads
    bool saturates = false;
    bool flushes = false;  // float32 numbers that are too small for all digits are 0
    bool uniform = false;  // of a branch: all threads of a warp must agree
    s32 predicate = NONE;
    s32 result[4] = {NONE, NONE, NONE, NONE};
    s32 source[4] = {NONE, NONE, NONE, NONE};  // of an access: source[0] is the address; what is stored stands in `result`
    s32 members = NONE;                        // of a collective instruction: the lanes that take part
    s32 target = NONE;                         // of a branch
    s64 offset = 0;                            // of an address; of a comparison: what stands for true
    s32 line = 0;                              // of the CUDA source
    s32 number = 0;
    std::string text;
};

// What a register holds before the first instruction; the last ones have three dimensions.
enum class Initial : u8 {
    Unset,
    Constant,
    Lane,
    WarpNumber,
    LanesEqual,
    LanesBelow,
    Thread,
    BlockSize = Thread + 3,
    Block = BlockSize + 3,
    Grid = Block + 3
};

struct Register {
    std::string name;
    u64 mask;  // of its width
    Initial initial = Initial::Unset;
    int dimension = 0;
    u64 value = 0;  // of a constant
};

struct Parameter {
    std::string name;
    u32 at, size;
};

struct Kernel {
    std::string name;
    std::vector<Instruction> code;
    std::vector<Register> registers;
    std::vector<Parameter> parameters;
    std::vector<u64>
        executed;  // for each instruction, how many warps executed it for some thread; a branch that no thread takes counts too
    u32 parameter_bytes = 0, static_shared = 0, local_bytes = 0, most_threads = 1024;
    bool waits = false;  // has barriers
};

struct Variable {
    u64 address, size;
    std::vector<u8> content;
};

struct Program {
    std::map<std::string, Kernel, std::less<>> kernels;
    std::map<std::string, Variable, std::less<>> variables;
};

struct ParseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Gives an address to a variable of `size` bytes.
typedef std::function<u64(u64 size)> Place;

// Reads PTX. Raises ParseError for what it does not know. place: null refuses the use of variables of global memory.
Program parse(std::string_view text, const Place& place);

// The handler of an instruction of one result and `sources` sources, null where there is none for this type.
Handler handler_of(std::string_view name, Type type, int& sources);
Handler comparison(std::string_view name, Type type);
Handler conversion(Type to, Type from);
Handler atomic(std::string_view name, Type type);
Handler collective(std::string_view name);
void move(Warp&, const Instruction&, u32 mask);
void pack(Warp&, const Instruction&, u32 mask);
void unpack(Warp&, const Instruction&, u32 mask);
void load(Warp&, const Instruction&, u32 mask);
void store(Warp&, const Instruction&, u32 mask);
void active_lanes(Warp&, const Instruction&, u32 mask);
void to_shared_window(Warp&, const Instruction&, u32 mask);
void trap(Warp&, const Instruction&, u32 mask);
void nothing(Warp&, const Instruction&, u32 mask);

// Bytes of a type; a predicate has one bit.
constexpr u32 bytes_of(Type type) {
    constexpr u8 bytes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2};
    return bytes[static_cast<int>(type)];
}
