// Tiles: slices that are contiguous along different dimensions in input and output. A tile is a box of elements. A block loads it
// into shared memory in the order of the input, and stores it from there in the order of the output, so that both accesses are
// coalesced.
//
// Loads and stores move units: one element, or several adjacent narrow ones. A block moves several adjacent tiles. A thread
// computes the offsets of its units once for all tiles of one form (the same sizes). The last tile along a dimension may be
// smaller, and then has a form of its own.
//
// A stretch is a tile that is contiguous in the output. Its units are numbered from a sector boundary, so that requests begin and
// end there. All stretches of a block begin at the same offset in a sector.
#pragma once
#include "elements.cuh"
#include "table.cuh"

constexpr int MAX_TILED = 6;  // most dimensions of a tile
constexpr u32 SECTOR = 32;    // bytes that memory moves at once

struct TileDimension {
    u32 size;        // of the tile: in units for loads, in elements for stores
    u32 multiplier;  // quotient = ((2 * n + 1) * multiplier) >> 32 for every n < 2^14
    s32 step;        // bytes from one coordinate to the next, in the input or the output
    s32 place;       // bytes from one coordinate to the next in shared memory; stores only
};

struct TileForm {
    s32 in_start;  // bytes from the tile's first element to its lowest address in the input
    u32 loads;     // number of units that are loaded
    u32 stores;    // number of units that are stored (squares: of squares)
    u32 first_place;  // position of the tile's first element in shared memory
    u32 load_rank;
    u32 store_rank;
    s32 lane_step;   // squares only: bytes of output between elements that are adjacent in the input
    u32 room_shift;  // squares only: shared memory has a gap of one unit after every 1 << room_shift bytes
    TileDimension load[MAX_TILED];   // at least one, in the order of the input in memory, fastest first
    TileDimension store[MAX_TILED];  // at least two (squares: one), in the order of the output
};

static_assert(sizeof(TileForm) == 224, "arguments.py packs TileForm in 224 bytes");

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }

// Most bytes of a tile: a thread loads and stores at most 8 units and 16 elements.
template <int Bytes, int Loaded, int Stored>
constexpr int TILE_BYTES = smaller(smaller(8 * BLOCK * smaller(Loaded, Stored), 16 * BLOCK * Bytes), 8192);

// Adds a gap after every 128 bytes of shared memory, which spreads strided accesses over the banks: byte 128 lies at 132, in bank 1.
template <int Bytes> __device__ __forceinline__ u32 with_room(u32 place) { return place + (place >> 7) * (Bytes < 4 ? 4 : Bytes); }

template <int Bytes> __device__ __forceinline__ Element<Bytes>* element_at(char* tile, u32 place) {
    return reinterpret_cast<Element<Bytes>*>(tile + place);
}

// Splits each number into its coordinate along `dim` and the quotient, which stays in `number`.
template <int Count>
__device__ __forceinline__ void take(u32 (&number)[Count], const TileDimension& dim, u32 (&at)[Count]) {
#pragma unroll
    for (int n = 0; n < Count; ++n) {
        const u32 quotient = __umulhi(2 * number[n] + 1, dim.multiplier);
        at[n] = number[n] - quotient * dim.size;
        number[n] = quotient;
    }
}

// Calls use(dim, n, at) for each dimension, where `at` is the coordinate of the n-th number along it.
template <int Count, typename Use>
__device__ __forceinline__ void each_coordinate(u32 (&number)[Count], const TileDimension* dims, u32 rank, Use use) {
#pragma unroll 1
    for (; rank > 1; --rank, ++dims) {
        const TileDimension dim = *dims;
        u32 at[Count];
        take(number, dim, at);
#pragma unroll
        for (int n = 0; n < Count; ++n) use(dim, n, at[n]);
    }
    const TileDimension slowest = *dims;
#pragma unroll
    for (int n = 0; n < Count; ++n) use(slowest, n, number[n]);
}

// The positions of the elements of a unit in shared memory, two per register.
template <int Lanes> struct Places {
    u32 pairs[(Lanes + 1) / 2];

    __device__ __forceinline__ void set(int lane, u32 place) {
        pairs[lane / 2] = lane % 2 ? __byte_perm(pairs[lane / 2], place, 0x5410) : place;
    }
    __device__ __forceinline__ u32 at(int lane) const {
        return Lanes == 1 ? pairs[0] : lane % 2 ? pairs[lane / 2] >> 16 : pairs[lane / 2] & 0xffff;
    }
};

// Returns the elements at these positions as one unit, the first element lowest.
template <int Bytes, int Lanes>
__device__ __forceinline__ Element<Bytes * Lanes> joined(char* tile, const Places<Lanes>& places) {
    if constexpr (Lanes == 1) {
        return *element_at<Bytes>(tile, places.at(0));
    } else {
        u32 element[Lanes];
#pragma unroll
        for (int n = 0; n < Lanes; ++n) element[n] = *element_at<Bytes>(tile, places.at(n));
        if constexpr (Bytes == 2) {
            return __byte_perm(element[0], element[1], 0x5410);
        } else {
            return __byte_perm(__byte_perm(element[0], element[1], 0x0040), __byte_perm(element[2], element[3], 0x0040), 0x5410);
        }
    }
}

// Calls set(n, offset, places) for the units first, first + BLOCK, ...: with the offset in the output from the tile's first
// element, and the positions of the unit's elements in shared memory.
template <int Bytes, int Lanes, int Count, typename Set>
__device__ __forceinline__ void find_units(const TileForm& form, u32 first, Set set) {
    // Most rows of the fastest dimension that a unit lies in: the dimension has at least two elements, so four lie in up to three rows.
    constexpr int Rows = Lanes == 4 ? 3 : Lanes;
    const TileDimension fastest = form.store[0];
    u32 row[Count], column[Count], rows[Count * Rows], place[Count * Rows];
    s32 offset[Count];
#pragma unroll
    for (int n = 0; n < Count; ++n) row[n] = (first + n * BLOCK) * Lanes;
    take(row, fastest, column);
#pragma unroll
    for (int n = 0; n < Count * Rows; ++n) {
        rows[n] = row[n / Rows] + n % Rows;
        place[n] = form.first_place;
        offset[n / Rows] = column[n / Rows] * fastest.step;
    }
    each_coordinate(rows, form.store + 1, form.store_rank - 1, [&](const TileDimension& dim, int n, u32 at) {
        place[n] += at * dim.place;
        if (n % Rows == 0) offset[n / Rows] += at * dim.step;
    });
#pragma unroll
    for (int n = 0; n < Count; ++n) {
        Places<Lanes> places;
#pragma unroll
        for (int lane = 0; lane < Lanes; ++lane) {
            u32 at = column[n] + lane, start = place[n * Rows];
#pragma unroll
            for (int r = 1; r < Rows; ++r) {
                if (lane >= r && at >= fastest.size) {
                    at -= fastest.size;
                    start = place[n * Rows + r];
                }
            }
            places.set(lane, with_room<Bytes>(start + at * fastest.place));
        }
        set(n, offset[n], places);
    }
}

// Finds the offsets in the input of the units that a thread loads. A thread that has no more units loads the first unit of the
// tile again.
template <int Count>
__device__ __forceinline__ void find_loads(const TileForm& form, u32 thread, s32 (&in_offset)[Count]) {
    const s32 in_start = form.in_start;  // the planner ensures that offsets in a tile are below 2^31 bytes
    const u32 loads = form.loads;
    u32 unit[Count];
#pragma unroll
    for (int u = 0; u < Count; ++u) {
        unit[u] = thread + u * BLOCK;
        in_offset[u] = in_start;
    }
    each_coordinate(unit, form.load, form.load_rank, [&](const TileDimension& dim, int u, u32 at) { in_offset[u] += at * dim.step; });
#pragma unroll
    for (int u = 0; u < Count; ++u) in_offset[u] = thread + u * BLOCK < loads ? in_offset[u] : in_start;
}

// Finds the addresses of a tile. left: number of tiles after it along the fastest dimension. outer: what the other dimensions add
// to the number of its form.
__device__ __forceinline__ void find_tile(const Arguments& a, const TableDimension* dimension, u32 number, const char*& in, char*& out,
                                          u32& left, u32& outer) {
    const TableDimension& fastest = dimension[0];
    u32 rest = number;
    const u32 first = next_coordinate(rest, fastest);
    in = a.in + a.in_offset + first * fastest.in_step;
    out = a.out + a.out_offset + first * fastest.out_step;
    left = fastest.size - 1 - first;
    outer = 0;
#pragma unroll 1
    for (u32 d = 1; d < a.rank; ++d) {
        const u32 at = next_coordinate(rest, dimension[d]);
        in += at * dimension[d].in_step;
        out += at * dimension[d].out_step;
        outer |= at + 1 == dimension[d].size ? dimension[d].last : 0;
    }
}

template <int Bytes, int Loaded, int Stored, bool Stretch> __device__ __forceinline__ void move_tiles(const Arguments& a) {
    constexpr int Size = TILE_BYTES<Bytes, Loaded, Stored>;
    constexpr int Loads = Size / BLOCK / Loaded, Stores = Size / BLOCK / Stored, Lanes = Stored / Bytes;
    constexpr int AtOnce = smaller(Stores, 4 / Lanes);  // units whose places are computed together
    __shared__ __align__(16) char tile[Size + Size / 128 * (Bytes < 4 ? 4 : Bytes)];
    const TableDimension* dimension = reinterpret_cast<const TableDimension*>(a.table);
    const TileForm* forms = reinterpret_cast<const TileForm*>(dimension + a.rank);
    s32 in_offset[Loads], out_offset[Stores];
    Places<Lanes> places[Stores];
    u32 stores = 0, now = ~0u;
    u32 loaded = with_room<Bytes>(threadIdx.x * Loaded);  // position of the first unit that the thread loads
    asm volatile("" : "+r"(loaded));                      // otherwise, the compiler computes it again for each unit
    const u32 end = min((blockIdx.x + 1) * a.full, a.threads);
    const char* in = a.in;
    char* out = a.out;
    u32 left = 0, outer = 0;  // see find_tile
    for (u32 number = blockIdx.x * a.full; number < end; ++number) {
        const TableDimension& fastest = dimension[0];
        if (left != 0) {
            --left;
            in += fastest.in_step;
            out += fastest.out_step;
        } else {
            find_tile(a, dimension, number, in, out, left, outer);
        }
        const u32 last = left == 0 ? outer | fastest.last : outer;
        // Number of units from the start of the sector to the start of the tile.
        const u32 ahead = Stretch ? static_cast<u32>(reinterpret_cast<u64>(out)) % SECTOR / Stored : 0;
        if (last != now) {
            now = last;
            const TileForm& form = forms[now];
            stores = form.stores;
            u32 thread = threadIdx.x;
            asm volatile("" : "+r"(thread));  // otherwise, the compiler keeps values derived from it in registers for the next tiles
            find_loads(form, thread, in_offset);
#pragma unroll
            for (int u = 0; u < Stores; u += AtOnce) {
                find_units<Bytes, Lanes, AtOnce>(form, thread - ahead + u * BLOCK, [&](int n, s32 offset, const Places<Lanes>& found) {
                    out_offset[u + n] = offset;
                    places[u + n] = found;
                });
            }
        }
        Element<Loaded> value[Loads];
#pragma unroll
        for (int u = 0; u < Loads; ++u) {
            // A plain load, because the compiler would move read-only loads behind the barrier.
            value[u] = *reinterpret_cast<const Element<Loaded>*>(in + in_offset[u]);
        }
        __syncthreads();  // the tile that was loaded before is now stored
#pragma unroll
        for (int u = 0; u < Loads; ++u) {
            *element_at<Loaded>(tile, loaded + with_room<Bytes>(u * BLOCK * Loaded)) = value[u];
        }
        __syncthreads();
        if (Stretch) {
            const u32 first = threadIdx.x - ahead;  // wraps around to a large number for units before the stretch
#pragma unroll
            for (int u = 0; u < Stores; ++u) {
                if (first + u * BLOCK < stores) store<Stored>(out + out_offset[u], joined<Bytes, Lanes>(tile, places[u]));
            }
        } else if (threadIdx.x + (Stores - 1) * BLOCK < stores) {
#pragma unroll
            for (int u = 0; u < Stores; ++u) store<Stored>(out + out_offset[u], joined<Bytes, Lanes>(tile, places[u]));
        } else {
#pragma unroll
            for (int u = 0; u + 1 < Stores; ++u) {
                if (threadIdx.x + u * BLOCK < stores) store<Stored>(out + out_offset[u], joined<Bytes, Lanes>(tile, places[u]));
            }
        }
    }
}

#define TILES(name, bytes, loaded, stored) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { move_tiles<bytes, loaded, stored, false>(a); }
#define STRETCH(name, bytes, loaded, stored) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { move_tiles<bytes, loaded, stored, true>(a); }
