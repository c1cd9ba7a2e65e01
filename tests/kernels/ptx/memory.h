// Memory as a kernel may use it: every access is checked, and counted if that was asked for.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "machine.h"

constexpr int SECTOR = 32, LINE = 128, BANKS = 32, WORD = 4;

struct Failure {
    Fault fault;
    int lane;
    u64 address;
    u32 size;
    s32 other = NONE;
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
        for (const auto& [_, piece] : pieces) sum += __builtin_popcountll(piece.stored);
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
    // Returns whether the number is new.
    bool insert(u64 number) {
        if (2 * count >= slots.size()) grow();
        for (u64 at = number * 0x9E3779B97F4A7C15u >> shift;; at = (at + 1) & (slots.size() - 1)) {
            if (slots[at].round != round) {
                slots[at] = {number, round};
                ++count;
                return true;
            }
            if (slots[at].number == number) return false;
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

struct Accesses {
    NumberSet of_block, of_launch;
};

class GlobalMemory {
public:
    explicit GlobalMemory(const Launch& launch) : launch(launch), accesses(launch.counts ? 2 * launch.buffer_count : 0) {}

    void begin_block() {
        for (int i = 0; i < launch.buffer_count && launch.counts; ++i) {
            launch.counts[i].loads.fetched += accesses[2 * i].of_block.size();
            launch.counts[i].stores.fetched += accesses[2 * i + 1].of_block.size();
            accesses[2 * i].of_block.clear();
            accesses[2 * i + 1].of_block.clear();
        }
    }

    void end() {
        begin_block();
        for (int i = 0; i < launch.buffer_count && launch.counts; ++i) {
            launch.counts[i].loads.distinct += accesses[2 * i].of_launch.size();
            launch.counts[i].stores.distinct += accesses[2 * i + 1].of_launch.size();
        }
    }

    void load(int lane, u64 address, u32 size, u8* to) {
        if (launch.flat) {
            std::memcpy(to, reinterpret_cast<const void*>(address), size);
            return;
        }
        const Buffer& buffer = find(lane, address, size);
        if (!(buffer.flags & READABLE)) throw Failure{Fault::NotReadable, lane, address, size};
        if (buffer.data) {
            std::memcpy(to, buffer.data + (address - buffer.address), size);
        } else {
            for (u32 i = 0; i < size; ++i) to[i] = static_cast<SparseBytes*>(buffer.sparse)->load(address + i);
        }
    }

    void store(int lane, u64 address, u32 size, const u8* from) {
        if (launch.flat) {
            std::memcpy(reinterpret_cast<void*>(address), from, size);
            return;
        }
        const Buffer& buffer = find(lane, address, size);
        if (!(buffer.flags & WRITABLE)) throw Failure{Fault::NotWritable, lane, address, size};
        if (buffer.flags & DISCARDED) return;
        const u64 at = address - buffer.address;
        for (u32 i = 0; i < size; ++i) {
            bool before;
            if (buffer.data) {
                before = buffer.stored[at + i];
                buffer.stored[at + i] = 1;
                buffer.data[at + i] = from[i];
            } else {
                before = static_cast<SparseBytes*>(buffer.sparse)->store(address + i, from[i]);
            }
            if (before) throw Failure{Fault::StoredTwice, lane, address + i, 1};
        }
    }

    u64 atomic_min(int lane, u64 address, u64 value) {
        u64 before;
        u8* at = reinterpret_cast<u8*>(address);
        if (!launch.flat) {
            const Buffer& buffer = find(lane, address, sizeof before);
            if (!(buffer.flags & ATOMIC) || !buffer.data) throw Failure{Fault::NotAtomic, lane, address, sizeof before};
            at = buffer.data + (address - buffer.address);
        }
        std::memcpy(&before, at, sizeof before);
        const u64 after = std::min(before, value);
        std::memcpy(at, &after, sizeof after);
        return before;
    }

    // One request of a warp: `size` bytes at the address of each lane in `mask`. All accesses have passed their checks.
    void count(bool stores, u32 mask, const u64* address, u32 size) {
        if (!launch.counts) return;
        std::array<u64, LANES> at;
        int lanes = 0;
        for (int lane = 0; lane < LANES; ++lane) {
            if (mask >> lane & 1) at[lanes++] = address[lane];
        }
        const int number = static_cast<int>(&find(0, at[0], size) - launch.buffers);
        Counts& counts = stores ? launch.counts[number].stores : launch.counts[number].loads;
        Accesses& all = accesses[2 * number + stores];
        std::sort(at.begin(), at.begin() + lanes);
        ++counts.requests;
        u64 sector = ~u64{0}, line = ~u64{0}, last = ~u64{0};
        for (int i = 0; i < lanes; ++i) {
            if (at[i] != last) counts.bytes += size;
            last = at[i];
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
    // The buffer that holds all bytes of the access.
    const Buffer& find(int lane, u64 address, u32 size) {
        const auto holds = [&](const Buffer& buffer) {
            const u64 at = address - buffer.address;
            return address >= buffer.address && at < buffer.size && size <= buffer.size - at;
        };
        if (last && holds(*last)) return *last;
        const Buffer* const end = launch.buffers + launch.buffer_count;
        const Buffer* const above =
            std::upper_bound(launch.buffers, const_cast<Buffer*>(end), address, [](u64 a, const Buffer& b) { return a < b.address; });
        if (above == launch.buffers || !holds(above[-1])) throw Failure{Fault::Outside, lane, address, size};
        last = above - 1;
        return *last;
    }

    const Launch& launch;
    const Buffer* last = nullptr;
    std::vector<Accesses> accesses;
};

// A block's shared memory. Each byte knows who wrote and who read it last, and in which phase; a barrier begins a phase.
class SharedMemory {
public:
    SharedMemory(u32 size, LaunchCounts* totals) : bytes(size), shadow(size), totals(totals) {}

    void begin_block() { first_phase = ++phase; }
    void begin_phase() { ++phase; }

    void load(int lane, u32 thread, u64 address, u32 size, u8* to) {
        check(lane, address, size);
        for (u32 i = 0; i < size; ++i) {
            Byte& byte = shadow[address + i];
            if (byte.write_phase < first_phase) throw Failure{Fault::SharedUnset, lane, address + i, 1};
            if (byte.write_phase == phase && byte.writer != thread) throw race(lane, address + i, byte.writer);
            byte.reader = byte.read_phase == phase && byte.reader != thread ? SEVERAL : thread;
            byte.read_phase = phase;
            to[i] = bytes[address + i];
        }
    }

    void store(int lane, u32 thread, u64 address, u32 size, const u8* from) {
        check(lane, address, size);
        for (u32 i = 0; i < size; ++i) {
            Byte& byte = shadow[address + i];
            if (byte.write_phase == phase && byte.writer != thread) throw race(lane, address + i, byte.writer);
            if (byte.read_phase == phase && byte.reader != thread) throw race(lane, address + i, byte.reader);
            byte.writer = thread;
            byte.write_phase = phase;
            bytes[address + i] = from[i];
        }
    }

    // Passes through 32 banks of 4 bytes. A warp's 8-byte accesses take two halves, its 16-byte accesses four quarters.
    void count(u32 mask, const u64* address, u32 size) {
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
    static constexpr u32 SEVERAL = ~u32{0};

    struct Byte {
        u32 writer = 0, reader = 0;
        u64 write_phase = 0, read_phase = 0;
    };

    static Failure race(int lane, u64 address, u32 other) {
        return {Fault::SharedRace, lane, address, 1, static_cast<s32>(other)};
    }

    void check(int lane, u64 address, u32 size) const {
        if (address > bytes.size() || size > bytes.size() - address) throw Failure{Fault::BeyondShared, lane, address, size};
    }

    std::vector<u8> bytes;
    std::vector<Byte> shadow;
    u64 phase = 1, first_phase = 1;
    LaunchCounts* totals;
};
