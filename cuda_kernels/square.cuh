// Squares: tiles with elements that are transposed in registers. A thread reads the rows of a square from shared memory, each a
// unit, transposes the square, and stores each column as a unit. So input and output must be contiguous over whole units, in
// different dimensions. Otherwise, these kernels work like those for tiles.
#pragma once
#include "tile.cuh"

constexpr int SQUARE_UNITS = 4;  // units of each tile that a thread moves

template <int Bytes> struct SquareUnitOf;
template <> struct SquareUnitOf<4> { typedef u32 type; };
template <> struct SquareUnitOf<8> { typedef uint2 type; };  // the compiler would split a u64

template <int Bytes> using SquareUnit = typename SquareUnitOf<Bytes>::type;

// Transposes a square: 4 x 4 bytes, 4 x 4 halves, or 2 x 2 words.
__device__ __forceinline__ void turn(u32 (&row)[4]) {
    const u32 low[2] = {__byte_perm(row[0], row[1], 0x5140), __byte_perm(row[2], row[3], 0x5140)};
    const u32 high[2] = {__byte_perm(row[0], row[1], 0x7362), __byte_perm(row[2], row[3], 0x7362)};
    row[0] = __byte_perm(low[0], low[1], 0x5410);
    row[1] = __byte_perm(low[0], low[1], 0x7632);
    row[2] = __byte_perm(high[0], high[1], 0x5410);
    row[3] = __byte_perm(high[0], high[1], 0x7632);
}

__device__ __forceinline__ void turn(uint2 (&row)[4]) {
    const uint2 old[4] = {row[0], row[1], row[2], row[3]};
    row[0] = make_uint2(__byte_perm(old[0].x, old[1].x, 0x5410), __byte_perm(old[2].x, old[3].x, 0x5410));
    row[1] = make_uint2(__byte_perm(old[0].x, old[1].x, 0x7632), __byte_perm(old[2].x, old[3].x, 0x7632));
    row[2] = make_uint2(__byte_perm(old[0].y, old[1].y, 0x5410), __byte_perm(old[2].y, old[3].y, 0x5410));
    row[3] = make_uint2(__byte_perm(old[0].y, old[1].y, 0x7632), __byte_perm(old[2].y, old[3].y, 0x7632));
}

__device__ __forceinline__ void turn(uint2 (&row)[2]) {
    const u32 other = row[0].y;
    row[0].y = row[1].x;
    row[1].x = other;
}

template <int Bytes, int Unit> __device__ __forceinline__ void move_squares(const Arguments& a) {
    constexpr int Units = SQUARE_UNITS, Edge = Unit / Bytes, Squares = Units / Edge, Size = Units * BLOCK * Unit;
    typedef SquareUnit<Unit> Loaded;
    __shared__ __align__(16) char tile[Size + Size / 128 * Unit];
    const TableDimension* dimension = reinterpret_cast<const TableDimension*>(a.table);
    const TileForm* forms = reinterpret_cast<const TileForm*>(dimension + a.rank);
    const s64 in_step = dimension[0].in_step, out_step = dimension[0].out_step;
    const u32 fastest_last = dimension[0].last;
    u32 place[Units];  // positions of the rows of a thread's squares in shared memory
    s32 in_offset[Units], out_offset[Squares], lane_step = 0;
    u32 stores = 0, now = ~0u;
    u32 loaded = 0, apart = 0;  // position of the first unit that the thread loads, and bytes from one of its units to the next
    const u32 end = min((blockIdx.x + 1) * a.full, a.threads);
    const char* in = a.in;
    char* out = a.out;
    u32 left = 0, outer = 0;
    for (u32 number = blockIdx.x * a.full; number != end; ++number) {
        if (left != 0) {
            --left;
            in += in_step;
            out += out_step;
        } else {
            find_tile(a, dimension, number, in, out, left, outer);
        }
        const u32 last = left == 0 ? outer | fastest_last : outer;
        if (now != last) {
            now = last;
            const TileForm& form = forms[now];
            stores = form.stores;
            lane_step = form.lane_step;
            const u32 shift = form.room_shift;
            const auto with_room = [=](u32 at) { return at + (at >> shift) * Unit; };
            const u32 thread = threadIdx.x;
            loaded = with_room(thread * Unit);
            apart = with_room(BLOCK * Unit);
            find_loads(form, thread, in_offset);
            u32 square[Squares], start[Squares];
#pragma unroll
            for (int n = 0; n < Squares; ++n) {
                square[n] = thread + n * BLOCK;
                start[n] = form.first_place;
                out_offset[n] = 0;
            }
            each_coordinate(square, form.store, form.store_rank, [&](const TileDimension& dim, int n, u32 at) {
                start[n] += at * dim.place;
                out_offset[n] += at * dim.step;
            });
#pragma unroll
            for (int u = 0; u < Units; ++u) place[u] = with_room(start[u / Edge] + u % Edge * (form.store[0].place / Edge));
        }
        Loaded value[Units];
#pragma unroll
        for (int u = 0; u < Units; ++u) value[u] = *reinterpret_cast<const Loaded*>(in + in_offset[u]);
        __syncthreads();  // the squares of the previous tile have been stored
#pragma unroll
        for (int u = 0; u < Units; ++u) *reinterpret_cast<Loaded*>(tile + loaded + u * apart) = value[u];
        __syncthreads();
#pragma unroll
        for (int n = 0; n < Squares; ++n) {
            if (threadIdx.x + n * BLOCK < stores) {
                Loaded row[Edge];
#pragma unroll
                for (int r = 0; r < Edge; ++r) row[r] = *reinterpret_cast<const Loaded*>(tile + place[n * Edge + r]);
                turn(row);
                char* to = out + out_offset[n];
#pragma unroll
                for (int r = 0; r < Edge; ++r, to += lane_step) __stcs(reinterpret_cast<Loaded*>(to), row[r]);
            }
        }
    }
}

#define SQUARES(name, bytes, unit) \
    extern "C" __global__ void __launch_bounds__(BLOCK, 4) name(const Arguments a) { move_squares<bytes, unit>(a); }
