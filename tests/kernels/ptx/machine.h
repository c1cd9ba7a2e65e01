// What Python (machine.py) and the interpreter share. All structures are packed by ctypes, field by field.
#pragma once
#include <cstdint>

typedef std::uint8_t u8;
typedef std::uint16_t u16;
typedef std::uint32_t u32;
typedef std::uint64_t u64;
typedef std::int8_t s8;
typedef std::int16_t s16;
typedef std::int32_t s32;
typedef std::int64_t s64;

constexpr int LANES = 32;
constexpr int NONE = -1;

// The order is that of OPCODES in assembly.py.
enum class Op : s32 {
    Add, Sub, Mul, MulHi, MulWide, Mad, MadWide, Div, Rem, Min, Max, Neg, Not, NotPredicate, And, Or, Xor, Shl, Shr, FunnelLeft,
    FunnelRight, Permute, InsertBits, Select, Move, Pack, Unpack, Convert,
    Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual,
    LoadParameter, LoadGlobal, StoreGlobal, LoadShared, StoreShared, AtomicMin, Barrier, Branch, Return,
};

// The order is that of TYPES in assembly.py.
enum class Type : s32 { U8, U16, U32, U64, S8, S16, S32, S64 };

// Operands are numbers of registers, NONE where there is none. A constant is a register that never changes.
struct Instruction {
    Op op;
    Type type;      // of the operation; of a conversion: the result
    Type from;      // of a conversion: the source
    s32 predicate;  // the instruction is executed where this register is not `negated`
    s32 negated;
    s32 result[4];
    s32 source[4];  // of a load or store: source[0] is the address. Values to store stand in `result`
    s32 parts;      // registers of a vector
    s32 target;     // of a branch
    s32 uniform;    // of a branch: all threads of a warp must agree
    s64 offset;     // of an address
};

// What a register holds before the first instruction.
enum class Initial : s32 { Unset, Constant, Thread, BlockSize, Block, Grid, Lane };

struct Register {
    u64 value;  // of a constant
    u64 mask;   // of the register's width
    Initial initial;
};

struct Kernel {
    const Instruction* code;
    const Register* registers;
    u64* executed;  // for each instruction, how many warps executed it for some thread; a branch that no thread takes counts too
    s32 instructions;
    s32 register_count;
    u32 parameter_bytes;
    u32 static_shared_bytes;
};

enum BufferFlags : u32 { READABLE = 1, WRITABLE = 2, ATOMIC = 4, DISCARDED = 8 };

struct Counts;

struct Buffer {
    u64 address;
    u64 size;
    u8* data;       // null: sparse; bytes that nobody stored have the value pattern(address)
    u8* stored;     // a dense writable buffer: 1 for each byte that was stored
    void* sparse;   // a sparse buffer's bytes that were stored
    u32 flags;
};

// Global accesses of one buffer. A request is one instruction of one warp.
struct Counts {
    u64 requests;
    u64 sectors;   // of 32 bytes, distinct in a request, summed
    u64 lines;     // of 128 bytes, likewise
    u64 bytes;     // distinct bytes of a request, summed
    u64 fetched;   // sectors, distinct in a block, summed
    u64 distinct;  // sectors, distinct in the launch
};

struct BufferCounts {
    Counts loads;
    Counts stores;
};

struct LaunchCounts {
    u64 threads;
    u64 warps;
    u64 instructions;         // of warps
    u64 thread_instructions;  // of threads
    u64 shared_requests;
    u64 shared_passes;        // through the banks
    u64 shared_least;         // passes without bank conflicts
};

enum class Fault : s32 {
    None, Outside, NotReadable, NotWritable, NotAtomic, Misaligned, StoredTwice, BeyondParameters, BeyondShared, SharedUnset,
    SharedRace, RegisterUnset, BarrierMissed, Disagreement, DivisionByZero, TooLong,
};

struct Outcome {
    Fault fault;
    s32 instruction;
    u32 block;
    u32 thread;
    u64 address;
    u32 size;
    s32 other;  // shared race: the other thread; a register that is not set: its number
};

struct Launch {
    const Kernel* kernel;
    const u8* parameters;
    Buffer* buffers;        // by rising addresses
    BufferCounts* counts;   // one for each buffer; null: nothing is counted
    LaunchCounts* totals;
    u64 most_instructions;  // of one warp
    s32 buffer_count;
    s32 flat;               // no buffers: every address of this process may be accessed
    u32 grid;
    u32 block_size;
    u32 first_block;        // the blocks first_block <= block < last_block are executed
    u32 last_block;
    u32 dynamic_shared_bytes;
};
