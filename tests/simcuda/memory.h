// Memory as a kernel may use it: every access is checked, and counted if that was asked for.
#pragma once
#include <algorithm>
#include <array>
#include <unordered_map>

#include "program.h"

typedef std::array<u64, LANES> Lanes;  // a value for each lane of a warp

constexpr int SECTOR = 32, LINE = 128, BANKS = 32, WORD = 4;

enum class Fault : s32 {
    None,
    Outside,
    NotReadable,
    NotWritable,
    NotAtomic,
    Misaligned,
    StoredTwice,
    BeyondParameters,
    BeyondShared,
    BeyondLocal,
    SharedUnset,
    SharedRace,
    RegisterUnset,
    BarrierMissed,
    Disagreement,
    LanesMissing,
    DivisionByZero,
    TooLong,
    Trap,
};

struct Failure {
    Fault fault;
    int lane = 0;
    u64 address = 0;
    u32 size = 0;
    s32 other = NONE;  // of a race in shared memory: the other thread; of a register that is not set: its number
};

// What a byte of a sparse buffer holds before it is stored. machine.py computes the same.
inline u8 pattern(u64 address) { return static_cast<u8>(address * 0x9E3779B97F4A7C15u >> 56); }

// The stored bytes of a sparse buffer, by pieces of 64.
class SparseBytes {
public:
    u8 load(u64 address) const {
        const Piece* const piece = find(address);
        return piece && piece->known >> address % 64 & 1 ? piece->bytes[address % 64] : pattern(address);
    }

    // Returns whether the byte was stored before.
    bool store(u64 address, u8 value) {
        Piece& piece = pieces[address / 64];
        const u64 bit = u64{1} << address % 64;
        const bool before = piece.stored & bit;
        piece.known |= bit;
        piece.stored |= bit;
        piece.bytes[address % 64] = value;
        return before;
    }

    bool stored(u64 address) const {
        const Piece* const piece = find(address);
        return piece && piece->stored >> address % 64 & 1;
    }

    void forget_stores() {
        for (auto& [_, piece] : pieces) piece.stored = 0;
    }

    u64 count() const {
        u64 sum = 0;
        for (const auto& [_, piece] : pieces) sum += static_cast<u64>(std::popcount(piece.stored));
        return sum;
    }

private:
    struct Piece {
        u8 bytes[64];
        u64 known;   // the bytes that do not hold the pattern
        u64 stored;  // by the last launch
    };

    const Piece* find(u64 address) const {
        const auto found = pieces.find(address / 64);
        return found == pieces.end() ? nullptr : &found->second;
    }

    std::unordered_map<u64, Piece> pieces;
};

// A set of numbers that is emptied often: open addressing, and entries of earlier rounds count as empty.
class NumberSet {
public:
    void insert(u64 number) {
        if (2 * count >= slots.size()) grow();
        for (u64 at = number * 0x9E3779B97F4A7C15u >> shift;; at = (at + 1) & (slots.size() - 1)) {
            if (slots[at].round != round) {
                slots[at] = {number, round};
                ++count;
                return;
            }
            if (slots[at].number == number) return;
        }
    }

    void clear() {
        ++round;
        count = 0;
    }

    u64 size() const { return count; }

private:
    struct Slot {
        u64 number;
        u64 round;
    };

    void grow() {
        const u64 old_round = round;
        std::vector<Slot> old(slots.size() * 2, Slot{0, 0});
        old.swap(slots);
        --shift;
        round = 1;
        count = 0;
        for (const Slot& slot : old) {
            if (slot.round == old_round) insert(slot.number);
        }
    }

    int shift = 64 - 10;
    u64 round = 1, count = 0;
    std::vector<Slot> slots = std::vector<Slot>(1 << 10, Slot{0, 0});
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
    Counts loads, stores;
};

struct LaunchCounts {
    u64 threads;
    u64 warps;
    u64 instructions;         // of warps
    u64 thread_instructions;  // of threads
    u64 shared_requests;
    u64 shared_passes;  // through the banks
    u64 shared_least;   // passes without bank conflicts
};

enum BufferFlags : u32 { READABLE = 1, WRITABLE = 2, ATOMIC = 4, DISCARDED = 8, REPEATED = 16 };

// Bytes at an address of the device, and what a kernel may do there. Without REPEATED, each byte may be stored once in a launch.
struct Buffer {
    u64 address;
    u64 size;
    u8* data;              // null: sparse; bytes that nobody stored have the value pattern(address)
    u8* stored;            // of a dense buffer that is not REPEATED: 1 for each byte that was stored
    SparseBytes* sparse;   // a sparse buffer's bytes that were stored
    BufferCounts* counts;  // null: accesses are not counted
    u32 flags;

    bool holds(u64 at, u64 bytes) const { return at >= address && at - address < size && bytes <= size - (at - address); }
};

// The global memory of a device.
class Memory {
public:
    virtual ~Memory() = default;
    // The buffer at the address that this device may access, null without one.
    virtual const Buffer* find(u64 address) = 0;
    // For messages: what lies at the address or next to it.
    virtual std::string near(u64 address) = 0;
};

inline void copy(u8* to, const u8* from, u32 size) {
    switch (size) {
        case 1: *to = *from; break;
        case 2: std::memcpy(to, from, 2); break;
        case 4: std::memcpy(to, from, 4); break;
        case 8: std::memcpy(to, from, 8); break;
        default: std::memcpy(to, from, size);
    }
}

// Global memory during a launch.
class GlobalMemory {
public:
    GlobalMemory(Memory& memory, std::size_t instructions) : memory(memory), last(instructions) {}

    void end_block() {
        for (auto& [buffer, both] : accesses) {
            Counts* const counts[] = {&buffer->counts->loads, &buffer->counts->stores};
            for (int stores = 0; stores < 2; ++stores) {
                counts[stores]->fetched += both[stores].of_block.size();
                both[stores].of_block.clear();
            }
        }
    }

    void end() {
        for (auto& [buffer, both] : accesses) {
            buffer->counts->loads.distinct += both[0].of_launch.size();
            buffer->counts->stores.distinct += both[1].of_launch.size();
        }
    }

    void load(const Instruction& in, int lane, u64 address, u32 size, u8* to) {
        const Buffer& buffer = find(in, lane, address, size);
        if (!(buffer.flags & READABLE)) throw Failure{Fault::NotReadable, lane, address, size};
        if (buffer.data) {
            copy(to, buffer.data + (address - buffer.address), size);
        } else {
            for (u32 i = 0; i < size; ++i) to[i] = buffer.sparse->load(address + i);
        }
    }

    void store(const Instruction& in, int lane, u64 address, u32 size, const u8* from) {
        const Buffer& buffer = find(in, lane, address, size);
        if (!(buffer.flags & WRITABLE)) throw Failure{Fault::NotWritable, lane, address, size};
        if (buffer.flags & DISCARDED) return;
        const u64 at = address - buffer.address;
        if (buffer.flags & REPEATED) return copy(buffer.data + at, from, size);
        for (u32 i = 0; i < size; ++i) {
            bool before;
            if (buffer.data) {
                before = buffer.stored[at + i];
                buffer.stored[at + i] = 1;
                buffer.data[at + i] = from[i];
            } else {
                before = buffer.sparse->store(address + i, from[i]);
            }
            if (before) throw Failure{Fault::StoredTwice, lane, address + i, 1};
        }
    }

    u8* atomic(const Instruction& in, int lane, u64 address, u32 size) {
        const Buffer& buffer = find(in, lane, address, size);
        if (!(buffer.flags & ATOMIC) || !buffer.data) throw Failure{Fault::NotAtomic, lane, address, size};
        return buffer.data + (address - buffer.address);
    }

    // One request of a warp: `size` bytes at the address of each lane in `mask`. All accesses have passed their checks.
    void count(const Instruction& in, u32 mask, const Lanes& address, u32 size) {
        const Buffer* const buffer = last[static_cast<std::size_t>(in.number)];
        if (!buffer->counts) return;
        Lanes at;
        int lanes = 0;
        for (int lane = 0; lane < LANES; ++lane) {
            if (mask >> lane & 1) at[lanes++] = address[lane];
        }
        Counts& counts = in.stores ? buffer->counts->stores : buffer->counts->loads;
        Accesses& all = accesses[buffer][in.stores];
        std::sort(at.begin(), at.begin() + lanes);
        ++counts.requests;
        u64 sector = ~u64{0}, line = ~u64{0}, before = ~u64{0};
        for (int i = 0; i < lanes; ++i) {
            if (at[i] != before) counts.bytes += size;
            before = at[i];
            if (at[i] / SECTOR != sector) {
                sector = at[i] / SECTOR;
                ++counts.sectors;
                all.of_block.insert(sector);
                all.of_launch.insert(sector);
            }
            if (at[i] / LINE != line) {
                line = at[i] / LINE;
                ++counts.lines;
            }
        }
    }

private:
    struct Accesses {
        NumberSet of_block, of_launch;
    };

    // The buffer that holds all bytes of the access. An instruction mostly accesses the same one again.
    const Buffer& find(const Instruction& in, int lane, u64 address, u32 size) {
        const Buffer*& known = last[static_cast<std::size_t>(in.number)];
        if (!known || !known->holds(address, size)) known = memory.find(address);
        if (!known || !known->holds(address, size)) throw Failure{Fault::Outside, lane, address, size};
        return *known;
    }

    Memory& memory;
    std::vector<const Buffer*> last;
    std::unordered_map<const Buffer*, std::array<Accesses, 2>> accesses;
};

// A block's shared memory. Each byte knows who wrote and who read it last, and when; a barrier begins a phase, and so does a
// collective instruction of a warp, for its own threads.
class SharedMemory {
public:
    SharedMemory(u32 size, LaunchCounts* totals) : bytes(size), shadow(size), totals(totals) {}

    void begin_block() { first_phase = block_phase = ++phase; }
    void begin_phase() { block_phase = ++phase; }
    void begin_phase_of(u32 thread) { warp_phase[thread / LANES] = ++phase; }

    void load(int lane, u32 thread, u64 address, u32 size, u8* to) {
        check(lane, address, size);
        for (u32 i = 0; i < size; ++i) {
            Byte& byte = shadow[address + i];
            require_set(lane, address + i);
            if (!after(byte.written, byte.writer, thread)) throw race(lane, address + i, byte.writer);
            byte.reader = after(byte.read, byte.reader, thread) ? thread : together(byte.reader, thread);
            byte.read = phase;
            to[i] = bytes[address + i];
        }
    }

    void store(int lane, u32 thread, u64 address, u32 size, const u8* from) {
        check(lane, address, size);
        for (u32 i = 0; i < size; ++i) {
            claim(lane, thread, address + i, thread);
            bytes[address + i] = from[i];
        }
    }

    // Atomic operations may meet each other, and nothing else.
    u8* atomic(int lane, u32 thread, u64 address, u32 size) {
        check(lane, address, size);
        for (u32 i = 0; i < size; ++i) {
            require_set(lane, address + i);
            claim(lane, thread, address + i, ATOMICALLY);
        }
        return &bytes[address];
    }

    // Passes through 32 banks of 4 bytes. A warp's 8-byte accesses take two halves, its 16-byte accesses four quarters.
    void count(u32 mask, const Lanes& address, u32 size) {
        if (!totals) return;
        const int parts = size == 16 ? 4 : size == 8 ? 2 : 1, lanes = LANES / parts;
        ++totals->shared_requests;
        for (int part = 0; part < parts; ++part) {
            std::array<std::vector<u64>, BANKS> words;
            bool any = false;
            for (int lane = part * lanes; lane < (part + 1) * lanes; ++lane) {
                if (!(mask >> lane & 1)) continue;
                any = true;
                for (u64 word = address[lane] / WORD; word <= (address[lane] + size - 1) / WORD; ++word) {
                    std::vector<u64>& bank = words[word % BANKS];
                    if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
                }
            }
            std::size_t passes = 0;
            for (const auto& bank : words) passes = std::max(passes, bank.size());
            totals->shared_passes += passes;
            totals->shared_least += any;
        }
    }

private:
    // Who accessed a byte: a thread, several of a warp (from SEVERAL on), or others of which no one is known.
    static constexpr u32 SEVERAL = 1 << 16, ALL = ~u32{0}, ATOMICALLY = ALL - 1;

    static u32 warp_of(u32 who) { return who % SEVERAL / LANES; }
    static u32 together(u32 who, u32 thread) {
        return who < ATOMICALLY && warp_of(who) == warp_of(thread) ? SEVERAL + warp_of(thread) * LANES : ALL;
    }

    struct Byte {
        u32 writer = 0, reader = 0;
        u64 written = 0, read = 0;  // phases
    };

    static Failure race(int lane, u64 address, u32 other) {
        return {Fault::SharedRace, lane, address, 1, other < SEVERAL ? static_cast<s32>(other) : NONE};
    }

    void check(int lane, u64 address, u32 size) const {
        if (address > bytes.size() || size > bytes.size() - address) throw Failure{Fault::BeyondShared, lane, address, size};
    }

    void require_set(int lane, u64 address) const {
        if (shadow[address].written < first_phase) throw Failure{Fault::SharedUnset, lane, address, 1};
    }

    // Whether `thread` comes after what `other` did in the phase `then`.
    bool after(u64 then, u32 other, u32 thread) const {
        return other == thread || then < block_phase || (warp_of(other) == warp_of(thread) && then < warp_phase[warp_of(thread)]);
    }

    void claim(int lane, u32 thread, u64 address, u32 writer) {
        Byte& byte = shadow[address];
        const bool both_atomic = writer == ATOMICALLY && byte.writer == ATOMICALLY;
        if (!both_atomic && !after(byte.written, byte.writer, thread)) throw race(lane, address, byte.writer);
        if (!after(byte.read, byte.reader, thread)) throw race(lane, address, byte.reader);
        byte.writer = writer;
        byte.written = phase;
    }

    std::vector<u8> bytes;
    std::vector<Byte> shadow;
    u64 phase = 1, first_phase = 1, block_phase = 1;
    std::array<u64, LANES> warp_phase = {};  // a block has as many warps at most as a warp has lanes
    LaunchCounts* totals;
};
