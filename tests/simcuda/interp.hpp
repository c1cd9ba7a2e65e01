// A PTX interpreter that runs kernels on real addresses of the host, one block after the other.
// What it asks of the driver around it: `check_global` for each access to global memory, `fault` for errors.
#pragma once
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace ptx {
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
typedef int64_t s64;
typedef int32_t s32;
typedef int16_t s16;
typedef int8_t s8;
typedef _Float16 f16;
using std::map;
using std::set;
using std::string;
using std::vector;

struct Range {
    u64 lo = 1, hi = 0;
    u64 generation = 0;
    s64 delta = 0;
    bool write = false;
};  // what was last found to be accessible by an instruction
struct Fault : std::runtime_error {
    int code;
    Fault(int c, const string& m) : std::runtime_error(m), code(c) {}
};
// Fills `r` with a range in which [at, at + n) lies and which the launch may access; else throws Fault.
struct Ctx;
typedef void (*Check)(u64 at, u64 n, bool write, Range& r, const Ctx& c);

struct Ctx;
struct Ins;
typedef void (*Fn)(Ctx&, const Ins&);
enum Space : u8 { GLOBAL, SHARED, PARAM, LOCAL, GENERIC, CONST_ };
enum Kind : u8 { PLAIN, EXIT, BARRIER, WARP };
struct Ins {
    Fn fn = nullptr;
    Kind kind = PLAIN;
    Space space = GLOBAL;
    u8 n = 1, w = 0, sub = 0;
    bool sg = false, pneg = false, hasp = false;
    int pred = -1, target = -1, d[4] = {-1, -1, -1, -1}, d2 = -1;
    u8 dw[4] = {0, 0, 0, 0};
    int s[5] = {-1, -1, -1, -1, -1};
    int base = -1;
    s64 off = 0;
    mutable Range range;
    string text;
    int line = 0;
    Fn warp = nullptr;
};
struct Param {
    string name;
    u32 at, size, align;
};
struct Kernel {
    string name;
    vector<Ins> code;
    vector<Param> params;
    u32 param_bytes = 0, static_shared = 0, local_bytes = 0;
    bool barrier = false, dynamic = false;
    int nregs = 0;
    vector<std::pair<int, u64>> constants;
    vector<int> dynamic_regs;
    u32 maxntid = 1024;
    u64 launches = 0;
};
struct Global {
    string name;
    u64 size = 0;
    vector<u8> init;
    std::unique_ptr<u8[]> mem;
};
struct Module {
    map<string, std::unique_ptr<Kernel>> kernels;
    map<string, Global> globals;
    string text;
};

const u64 LOCAL_TAG = 0x7e00000000000000ull, SHARED_TAG = 0x7d00000000000000ull;
struct Thread {
    vector<u64> r;
    vector<u8> local;
    int pc = 0;
    u8 state = 0;
    u32 tid[3];
};
struct Ctx {
    u64* R;
    const Kernel* k;
    int pc;
    u32 tid[3], ntid[3], ctaid[3], nctaid[3];
    u32 linear;
    u8* shared;
    u64 shared_size;
    u8* local;
    const u8* param;
    Check check;
    bool stop;
    Thread* threads = nullptr;
    u64 generation = 0;
    string where() const {
        char b[300];
        snprintf(b, sizeof b, "kernel %s block (%u,%u,%u) thread (%u,%u,%u), %s", k->name.c_str(), ctaid[0], ctaid[1], ctaid[2],
                 tid[0], tid[1], tid[2], k->code[pc - 1].text.c_str());
        return b;
    }
};

template <class T>
inline T rd(u64 v) {
    if constexpr (std::is_same_v<T, float>) {
        u32 x = (u32)v;
        float f;
        memcpy(&f, &x, 4);
        return f;
    } else if constexpr (std::is_same_v<T, double>) {
        double f;
        memcpy(&f, &v, 8);
        return f;
    } else if constexpr (std::is_same_v<T, f16>) {
        u16 x = (u16)v;
        f16 f;
        memcpy(&f, &x, 2);
        return f;
    } else
        return (T)v;
}
template <class T>
inline u64 wr(T v) {
    if constexpr (std::is_same_v<T, float>) {
        u32 x;
        memcpy(&x, &v, 4);
        return x;
    } else if constexpr (std::is_same_v<T, double>) {
        u64 x;
        memcpy(&x, &v, 8);
        return x;
    } else if constexpr (std::is_same_v<T, f16>) {
        u16 x;
        memcpy(&x, &v, 2);
        return x;
    } else if constexpr (std::is_same_v<T, bool>)
        return v;
    else
        return (u64)(std::make_unsigned_t<T>)v;
}
inline u64 cut(u64 v, int w) { return w >= 64 ? v : v & ((1ull << w) - 1); }
#define A rd<T>(c.R[x.s[0]])
#define B rd<T>(c.R[x.s[1]])
#define C rd<T>(c.R[x.s[2]])
#define OUT(e) c.R[x.d[0]] = wr<T>((T)(e))
template <class T>
constexpr bool is_f = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16>;
template <class T>
struct Uns {
    typedef std::make_unsigned_t<T> type;
};
template <>
struct Uns<float> {
    typedef float type;
};
template <>
struct Uns<double> {
    typedef double type;
};
template <>
struct Uns<f16> {
    typedef f16 type;
};
template <class T>
using U = typename Uns<T>::type;
template <class T>
void o_add(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(A + B);
    else
        OUT((U<T>)A + (U<T>)B);
}
template <class T>
void o_sub(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(A - B);
    else
        OUT((U<T>)A - (U<T>)B);
}
template <class T>
void o_mul(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(A * B);
    else
        OUT((U<T>)((u64)(U<T>)A * (u64)(U<T>)B));
}
template <class T>
void o_mad(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(std::fma((double)A, (double)B, (double)C));
    else
        OUT((U<T>)((u64)(U<T>)A * (u64)(U<T>)B + (u64)(U<T>)C));
}
template <>
void o_mad<float>(Ctx& c, const Ins& x) {
    typedef float T;
    OUT(std::fmaf(A, B, C));
}
template <class T>
void o_div(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(A / B);
    else {
        T b = B;
        if (b == 0)
            OUT(-1);
        else if (std::is_signed_v<T> && b == (T)-1)
            OUT((U<T>)0 - (U<T>)A);
        else
            OUT(A / b);
    }
}
template <class T>
void o_rem(Ctx& c, const Ins& x) {
    if constexpr (!is_f<T>) {
        T b = B;
        if (b == 0)
            OUT(A);
        else if (std::is_signed_v<T> && b == (T)-1)
            OUT(0);
        else
            OUT(A % b);
    }
}
template <class T>
void o_min(Ctx& c, const Ins& x) {
    T a = A, b = B;
    if constexpr (is_f<T>) {
        if (a != a)
            OUT(b);
        else if (b != b)
            OUT(a);
        else
            OUT(a < b ? a : b);
    } else
        OUT(a < b ? a : b);
}
template <class T>
void o_max(Ctx& c, const Ins& x) {
    T a = A, b = B;
    if constexpr (is_f<T>) {
        if (a != a)
            OUT(b);
        else if (b != b)
            OUT(a);
        else
            OUT(a > b ? a : b);
    } else
        OUT(a > b ? a : b);
}
template <class T>
void o_neg(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(-A);
    else
        OUT((U<T>)0 - (U<T>)A);
}
template <class T>
void o_abs(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>)
        OUT(A < 0 || (A == 0) ? (T)(A < 0 ? -A : (T)0) : A);
    else
        OUT(A < 0 ? (U<T>)0 - (U<T>)A : (U<T>)A);
}
template <class T>
void o_sqrt(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(std::sqrt((double)A));
}
template <class T>
void o_rcp(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT((T)1 / A);
}
template <class T>
void o_rsqrt(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(1.0 / std::sqrt((double)A));
}
template <class T>
void o_ex2(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(std::exp2((double)A));
}
template <class T>
void o_lg2(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(std::log2((double)A));
}
template <class T>
void o_sin(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(std::sin((double)A));
}
template <class T>
void o_cos(Ctx& c, const Ins& x) {
    if constexpr (is_f<T>) OUT(std::cos((double)A));
}
template <class T>
void o_and(Ctx& c, const Ins& x) {
    OUT(A & B);
}
template <class T>
void o_or(Ctx& c, const Ins& x) {
    OUT(A | B);
}
template <class T>
void o_xor(Ctx& c, const Ins& x) {
    OUT(A ^ B);
}
template <class T>
void o_not(Ctx& c, const Ins& x) {
    if constexpr (std::is_same_v<T, bool>)
        OUT(!A);
    else
        OUT(~A);
}
template <class T>
void o_shl(Ctx& c, const Ins& x) {
    u32 n = (u32)c.R[x.s[1]];
    OUT(n >= 8 * sizeof(T) ? (U<T>)0 : (U<T>)((u64)(U<T>)A << n));
}
template <class T>
void o_shr(Ctx& c, const Ins& x) {
    u32 n = (u32)c.R[x.s[1]];
    const u32 w = 8 * sizeof(T);
    if (std::is_signed_v<T>)
        OUT(A >> (n >= w ? w - 1 : n));
    else
        OUT(n >= w ? (T)0 : (T)(A >> n));
}
template <class T>
void o_selp(Ctx& c, const Ins& x) {
    OUT(c.R[x.s[2]] & 1 ? A : B);
}
template <class T>
void o_mov(Ctx& c, const Ins& x) {
    c.R[x.d[0]] = wr<T>(A);
}
template <class T>
struct Wide {
    typedef s64 type;
};
template <>
struct Wide<u16> {
    typedef u32 type;
};
template <>
struct Wide<s16> {
    typedef s32 type;
};
template <>
struct Wide<u32> {
    typedef u64 type;
};
template <>
struct Wide<s32> {
    typedef s64 type;
};
template <class T>
void o_mulwide(Ctx& c, const Ins& x) {
    typedef typename Wide<T>::type W;
    c.R[x.d[0]] = wr<W>((W)((W)A * (W)B));
}
template <class T>
void o_madwide(Ctx& c, const Ins& x) {
    typedef typename Wide<T>::type W;
    typedef std::make_unsigned_t<W> UW;
    c.R[x.d[0]] = wr<W>((W)((UW)((W)A * (W)B) + (UW)rd<W>(c.R[x.s[2]])));
}
template <class T>
void o_mulhi(Ctx& c, const Ins& x) {
    if constexpr (sizeof(T) == 8) {
        if constexpr (std::is_signed_v<T>)
            OUT((T)(((__int128)A * (__int128)B) >> 64));
        else
            OUT((T)(((unsigned __int128)A * (unsigned __int128)B) >> 64));
    } else
        OUT((T)(((s64)A * (s64)B) >> (8 * sizeof(T))));
}
template <>
void o_mulhi<u32>(Ctx& c, const Ins& x) {
    typedef u32 T;
    OUT((T)(((u64)A * (u64)B) >> 32));
}
template <class T>
void o_madhi(Ctx& c, const Ins& x) {
    o_mulhi<T>(c, x);
    c.R[x.d[0]] = wr<T>((T)(rd<T>(c.R[x.d[0]]) + C));
}
enum Cmp : u8 { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_ };
template <class T>
inline bool compare(T a, T b, u8 cmp) {
    bool un = false;
    if constexpr (is_f<T>) un = a != a || b != b;
    switch (cmp) {
        case EQ: return a == b;
        case NE: return !un && a != b;
        case LT: return a < b;
        case LE: return a <= b;
        case GT: return a > b;
        case GE: return a >= b;
        case EQU: return un || a == b;
        case NEU: return un || a != b;
        case LTU: return un || a < b;
        case LEU: return un || a <= b;
        case GTU: return un || a > b;
        case GEU: return un || a >= b;
        case NUM: return !un;
        case NAN_: return un;
    }
    return false;
}
template <class T>
void o_setp(Ctx& c, const Ins& x) {
    bool v = compare<T>(A, B, x.sub);
    bool q = !v;
    if (x.n) {
        bool p = c.R[x.s[2]] & 1;
        if (x.hasp) p = !p;
        if (x.n == 1) {
            v = v && p;
            q = q && p;
        } else if (x.n == 2) {
            v = v || p;
            q = q || p;
        } else {
            v = v ^ p;
            q = q ^ p;
        }
    }
    c.R[x.d[0]] = v;
    if (x.d2 >= 0) c.R[x.d2] = q;
}
template <class T>
void o_set(Ctx& c, const Ins& x) {
    bool v = compare<T>(A, B, x.sub);
    c.R[x.d[0]] = x.w == 1 ? (v ? 0x3f800000u : 0) : (v ? 0xffffffffu : 0);
}
template <class D, class S>
void o_cvt(Ctx& c, const Ins& x) {
    S v = rd<S>(c.R[x.s[0]]);
    D o;
    if constexpr (is_f<S> && !is_f<D>) {
        double f = (double)v;
        f = x.sub == 1   ? std::nearbyint(f)
            : x.sub == 2 ? std::trunc(f)
            : x.sub == 3 ? std::floor(f)
            : x.sub == 4 ? std::ceil(f)
                         : f;
        if (f != f)
            o = 0;
        else {
            const double lo = (double)std::numeric_limits<D>::min(), hi = (double)std::numeric_limits<D>::max();
            o = f <= lo ? std::numeric_limits<D>::min() : f >= hi ? std::numeric_limits<D>::max() : (D)f;
        }
    } else if constexpr (is_f<S> && is_f<D>) {
        if (x.sub == 1)
            o = (D)std::nearbyint((double)v);
        else if (x.sub == 2)
            o = (D)std::trunc((double)v);
        else if (x.sub == 3)
            o = (D)std::floor((double)v);
        else if (x.sub == 4)
            o = (D)std::ceil((double)v);
        else
            o = (D)v;
        if (x.hasp) o = o != o ? (D)0 : o<(D)0 ? (D)0 : o>(D) 1 ? (D)1 : o;
    } else if constexpr (!is_f<S> && !is_f<D>) {
        if (x.hasp) {
            typedef __int128 I;
            I a = v, lo = std::numeric_limits<D>::min(), hi = std::numeric_limits<D>::max();
            o = (D)(a < lo ? lo : a > hi ? hi : a);
        } else
            o = (D)v;
    } else
        o = (D)v;
    u64 r = wr<D>(o);
    if constexpr (!is_f<D>) {
        if (std::is_signed_v<D>) r = cut((u64)(s64)o, x.dw[0]);
    }
    c.R[x.d[0]] = r;
}
// bfloat16: 8 bits of significand, rounded to nearest even from the exact value
inline u16 to_bf16(long double v) {
    if (v != v) return 0x7fff;
    double d = (double)v;
    float f = (float)d;
    u32 b;
    memcpy(&b, &f, 4);
    if ((b & 0x7fffffff) >= 0x7f800000) return b >> 16;
    long double diff = v - (long double)f;  // what f lost decides ties
    if (diff != 0) {
        bool away = (diff > 0) == (v > 0);
        u32 low = b & 0xffff;
        if (low == 0x8000) return (b >> 16) + (away ? 1 : 0);
        if (low == 0 && !away) { /* just below */
        }
    }
    u32 r = b + 0x7fff + (b >> 16 & 1);
    return r >> 16;
}
inline float of_bf16(u64 v) {
    u32 b = (u32)(v & 0xffff) << 16;
    float f;
    memcpy(&f, &b, 4);
    return f;
}
template <class S>
void o_to_bf16(Ctx& c, const Ins& x) {
    c.R[x.d[0]] = to_bf16((long double)rd<S>(c.R[x.s[0]]));
}
template <class D>
void o_of_bf16(Ctx& c, const Ins& x) {
    Ins y;
    float f = of_bf16(c.R[x.s[0]]);
    if constexpr (is_f<D>)
        c.R[x.d[0]] = wr<D>((D)f);
    else {
        u64 keep = c.R[x.d[0]];
        (void)keep;
        double g = x.sub == 1 ? std::nearbyint((double)f) : std::trunc((double)f);
        const double lo = (double)std::numeric_limits<D>::min(), hi = (double)std::numeric_limits<D>::max();
        D o = g != g ? (D)0 : g <= lo ? std::numeric_limits<D>::min() : g >= hi ? std::numeric_limits<D>::max() : (D)g;
        u64 r = wr<D>(o);
        if (std::is_signed_v<D>) r = cut((u64)(s64)o, x.dw[0]);
        c.R[x.d[0]] = r;
    }
}
inline void o_shfl_l(Ctx& c, const Ins& x) {
    u32 n = (u32)c.R[x.s[2]];
    n = x.sub ? (n > 32 ? 32 : n) : n & 31;
    u64 v = (u64)(u32)c.R[x.s[1]] << 32 | (u32)c.R[x.s[0]];
    c.R[x.d[0]] = n == 32 ? (u32)v : (u32)((v << n) >> 32);
}
inline void o_shfl_r(Ctx& c, const Ins& x) {
    u32 n = (u32)c.R[x.s[2]];
    n = x.sub ? (n > 32 ? 32 : n) : n & 31;
    u64 v = (u64)(u32)c.R[x.s[1]] << 32 | (u32)c.R[x.s[0]];
    c.R[x.d[0]] = n == 32 ? (u32)(v >> 32) : (u32)(v >> n);
}
inline void o_prmt(Ctx& c, const Ins& x) {
    u64 v = (u64)(u32)c.R[x.s[1]] << 32 | (u32)c.R[x.s[0]];
    u32 sel = (u32)c.R[x.s[2]], o = 0;
    for (int i = 0; i < 4; ++i) {
        u32 q = sel >> 4 * i & 15, b = v >> 8 * (q & 7) & 255;
        if (q & 8) b = b & 128 ? 255 : 0;
        o |= b << 8 * i;
    }
    c.R[x.d[0]] = o;
}
template <class T>
void o_bfi(Ctx& c, const Ins& x) {
    U<T> a = (U<T>)A, b = (U<T>)B;
    u32 pos = c.R[x.s[2]] & 255, len = c.R[x.s[3]] & 255;
    for (u32 i = 0; i < len && pos + i < 8 * sizeof(T); ++i) {
        U<T> bit = (U<T>)1 << (pos + i);
        b = (a >> i & 1) ? b | bit : b & ~bit;
    }
    OUT(b);
}
template <class T>
void o_bfe(Ctx& c, const Ins& x) {
    const u32 w = 8 * sizeof(T);
    U<T> a = (U<T>)A;
    u32 pos = c.R[x.s[1]] & 255, len = c.R[x.s[2]] & 255;
    U<T> o = 0;
    bool sign = std::is_signed_v<T> && len ? (a >> (pos + len - 1 < w - 1 ? pos + len - 1 : w - 1) & 1) : false;
    for (u32 i = 0; i < w; ++i) {
        bool bit = i < len && pos + i < w ? (a >> (pos + i) & 1) : sign;
        if (bit) o |= (U<T>)1 << i;
    }
    OUT(o);
}
template <class T>
void o_popc(Ctx& c, const Ins& x) {
    c.R[x.d[0]] = __builtin_popcountll((u64)(U<T>)A);
}
template <class T>
void o_clz(Ctx& c, const Ins& x) {
    u64 v = (u64)(U<T>)A;
    c.R[x.d[0]] = v ? __builtin_clzll(v) - (64 - 8 * sizeof(T)) : 8 * sizeof(T);
}
template <class T>
void o_brev(Ctx& c, const Ins& x) {
    u64 v = (u64)(U<T>)A, o = 0;
    for (u32 i = 0; i < 8 * sizeof(T); ++i) o |= (v >> i & 1) << (8 * sizeof(T) - 1 - i);
    c.R[x.d[0]] = o;
}
inline void o_lop3(Ctx& c, const Ins& x) {
    u32 a = (u32)c.R[x.s[0]], b = (u32)c.R[x.s[1]], d = (u32)c.R[x.s[2]], l = (u32)c.R[x.s[3]], o = 0;
    for (int i = 0; i < 8; ++i)
        if (l >> i & 1) o |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? d : ~d);
    c.R[x.d[0]] = o;
}
inline void o_pack(Ctx& c, const Ins& x) {
    u64 v = 0;
    int w = x.w / x.n;
    for (int i = 0; i < x.n; ++i) v |= cut(c.R[x.s[i]], w) << (w * i);
    c.R[x.d[0]] = v;
}
inline void o_unpack(Ctx& c, const Ins& x) {
    u64 v = c.R[x.s[0]];
    int w = x.w / x.n;
    for (int i = 0; i < x.n; ++i)
        if (x.d[i] >= 0) c.R[x.d[i]] = cut(v >> (w * i), w);
}
inline void o_special(Ctx& c, const Ins& x) {
    u32 v = 0;
    int k = x.sub / 4, i = x.sub % 4;
    if (k == 0)
        v = c.tid[i];
    else if (k == 1)
        v = c.ntid[i];
    else if (k == 2)
        v = c.ctaid[i];
    else if (k == 3)
        v = c.nctaid[i];
    else if (x.sub == 16)
        v = c.linear & 31;
    else if (x.sub == 17)
        v = c.linear >> 5;
    else if (x.sub == 18)
        v = 32;
    else if (x.sub == 19)
        v = 1u << (c.linear & 31);
    else if (x.sub == 20)
        v = (1u << (c.linear & 31)) - 1;
    c.R[x.d[0]] = v;
}
inline void o_bra(Ctx& c, const Ins& x) { c.pc = x.target; }
inline void o_nop(Ctx&, const Ins&) {}
inline void o_exit(Ctx& c, const Ins&) { c.stop = true; }
inline void o_trap(Ctx& c, const Ins&) { throw Fault(719, "trap in " + c.where()); }
template <Space S>
inline u8* place(Ctx& c, const Ins& x, u64 at, u64 n, bool write) {
    if constexpr (S == PARAM) {
        if (at + n > c.k->param_bytes) throw Fault(700, "parameter out of bounds: " + c.where());
        return const_cast<u8*>(c.param) + at;
    } else if constexpr (S == SHARED) {
        if ((at & SHARED_TAG) == SHARED_TAG) at &= 0xffffffffu;
        if (at + n > c.shared_size)
            throw Fault(700, "shared memory out of bounds: " + std::to_string(at) + " + " + std::to_string(n) + " of " +
                                 std::to_string(c.shared_size) + " in " + c.where());
        return c.shared + at;
    } else if constexpr (S == LOCAL) {
        at &= 0xffffffffu;
        if (at + n > c.k->local_bytes) throw Fault(700, "local memory out of bounds: " + c.where());
        return c.local + at;
    } else if constexpr (S == GENERIC) {
        if (at >> 56 == LOCAL_TAG >> 56) return place<LOCAL>(c, x, at, n, write);
        if (at >> 56 == SHARED_TAG >> 56) return place<SHARED>(c, x, at, n, write);
        return place<GLOBAL>(c, x, at, n, write);
    } else {
        if (at < x.range.lo || at + n > x.range.hi || x.range.generation != c.generation) {
            x.range.lo = 1;
            x.range.hi = 0;
            c.check(at, n, write, x.range, c);
            x.range.generation = c.generation;
        }
        return reinterpret_cast<u8*>(at + x.range.delta);
    }
}
template <Space S, class T>
void o_ld(Ctx& c, const Ins& x) {
    u64 at = c.R[x.base] + x.off;
    const u64 n = sizeof(T) * x.n;
    if (at % n)
        throw Fault(716, "misaligned load of " + std::to_string(n) + " bytes at " + std::to_string(at) + " in " + c.where());
    u8* m = place<S>(c, x, at, n, false);
    for (int i = 0; i < x.n; ++i) {
        T v;
        memcpy(&v, m + i * sizeof(T), sizeof(T));
        c.R[x.d[i]] = std::is_signed_v<T> ? cut((u64)(s64)v, x.dw[i]) : (u64)v;
    }
}
template <Space S, class T>
void o_st(Ctx& c, const Ins& x) {
    u64 at = c.R[x.base] + x.off;
    const u64 n = sizeof(T) * x.n;
    if (at % n)
        throw Fault(716, "misaligned store of " + std::to_string(n) + " bytes at " + std::to_string(at) + " in " + c.where());
    u8* m = place<S>(c, x, at, n, true);
    for (int i = 0; i < x.n; ++i) {
        T v = (T)c.R[x.s[i]];
        memcpy(m + i * sizeof(T), &v, sizeof(T));
    }
}
enum Atom : u8 { A_ADD, A_MIN, A_MAX, A_EXCH, A_CAS, A_AND, A_OR, A_XOR, A_INC, A_DEC };
template <class T>
void o_atom(Ctx& c, const Ins& x) {
    u64 at = c.R[x.base] + x.off;
    if (at % sizeof(T)) throw Fault(716, "misaligned atomic in " + c.where());
    u8* m = x.space == SHARED ? place<SHARED>(c, x, at, sizeof(T), true) : place<GENERIC>(c, x, at, sizeof(T), true);
    T old;
    memcpy(&old, m, sizeof(T));
    T a = rd<T>(c.R[x.s[0]]), o = old;
    switch (x.sub) {
        case A_ADD: o = (T)(old + a); break;
        case A_MIN: o = a < old ? a : old; break;
        case A_MAX: o = a > old ? a : old; break;
        case A_EXCH: o = a; break;
        case A_CAS: o = old == a ? rd<T>(c.R[x.s[1]]) : old; break;
        default:
            if constexpr (!is_f<T>) {
                if (x.sub == A_AND)
                    o = old & a;
                else if (x.sub == A_OR)
                    o = old | a;
                else if (x.sub == A_XOR)
                    o = old ^ a;
                else if (x.sub == A_INC)
                    o = old >= a ? 0 : old + 1;
                else
                    o = old == 0 || old > a ? a : old - 1;
            }
    }
    memcpy(m, &o, sizeof(T));
    if (x.d[0] >= 0) c.R[x.d[0]] = wr<T>(old);
}
#undef A
#undef B
#undef C
#undef OUT

// ---- parsing
struct ParseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline string trim(const string& s) {
    size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
    return a == string::npos ? "" : s.substr(a, b - a + 1);
}
inline vector<string> split(const string& s, char ch) {
    vector<string> r;
    string cur;
    int depth = 0;
    for (char q : s) {
        if (q == '{' || q == '[' || q == '(') ++depth;
        if (q == '}' || q == ']' || q == ')') --depth;
        if (q == ch && depth == 0) {
            r.push_back(trim(cur));
            cur.clear();
        } else
            cur += q;
    }
    if (!trim(cur).empty()) r.push_back(trim(cur));
    return r;
}
inline u32 width_of(const string& t) {
    if (t == "pred") return 1;
    if (t == "f16x2" || t == "b32") return 32;
    if (t.size() < 2 || !strchr("usbf", t[0]) || !isdigit(t[1])) return 0;
    int w = atoi(t.c_str() + 1);
    return w == 8 || w == 16 || w == 32 || w == 64 || w == 128 ? w : 0;
}
#define BY_INT(f)                            \
    (t == "u16" || t == "b16"   ? (Fn)f<u16> \
     : t == "u32" || t == "b32" ? (Fn)f<u32> \
     : t == "u64" || t == "b64" ? (Fn)f<u64> \
     : t == "s16"               ? (Fn)f<s16> \
     : t == "s32"               ? (Fn)f<s32> \
     : t == "s64"               ? (Fn)f<s64> \
     : t == "u8" || t == "b8"   ? (Fn)f<u8>  \
     : t == "s8"                ? (Fn)f<s8>  \
                                : nullptr)
#define BY_FLOAT(f) (t == "f32" ? (Fn)f<float> : t == "f64" ? (Fn)f<double> : t == "f16" ? (Fn)f<f16> : nullptr)
#define BY_ANY(f) (BY_INT(f) ? BY_INT(f) : BY_FLOAT(f))
#define BY_BITS(f) (t == "pred" ? (Fn)f<bool> : BY_INT(f))
#define BY_WIDE(f) \
    (t == "u16" ? (Fn)f<u16> : t == "u32" ? (Fn)f<u32> : t == "s16" ? (Fn)f<s16> : t == "s32" ? (Fn)f<s32> : nullptr)
template <Space S>
Fn load_of(const string& t) {
    u32 w = width_of(t);
    if (t[0] == 's') return w == 8 ? (Fn)o_ld<S, s8> : w == 16 ? (Fn)o_ld<S, s16> : w == 32 ? (Fn)o_ld<S, s32> : (Fn)o_ld<S, s64>;
    return w == 8 ? (Fn)o_ld<S, u8> : w == 16 ? (Fn)o_ld<S, u16> : w == 32 ? (Fn)o_ld<S, u32> : (Fn)o_ld<S, u64>;
}
template <Space S>
Fn store_of(const string& t) {
    u32 w = width_of(t);
    return w == 8 ? (Fn)o_st<S, u8> : w == 16 ? (Fn)o_st<S, u16> : w == 32 ? (Fn)o_st<S, u32> : (Fn)o_st<S, u64>;
}
template <class D>
Fn cvt_from(const string& t) {
    return t == "f32"   ? (Fn)o_cvt<D, float>
           : t == "f64" ? (Fn)o_cvt<D, double>
           : t == "f16" ? (Fn)o_cvt<D, f16>
           : t == "u8"  ? (Fn)o_cvt<D, u8>
           : t == "u16" ? (Fn)o_cvt<D, u16>
           : t == "u32" ? (Fn)o_cvt<D, u32>
           : t == "u64" ? (Fn)o_cvt<D, u64>
           : t == "s8"  ? (Fn)o_cvt<D, s8>
           : t == "s16" ? (Fn)o_cvt<D, s16>
           : t == "s32" ? (Fn)o_cvt<D, s32>
           : t == "s64" ? (Fn)o_cvt<D, s64>
                        : nullptr;
}
inline Fn cvt_of(const string& d, const string& s) {
    if (d == "bf16")
        return s == "f32"   ? (Fn)o_to_bf16<float>
               : s == "f64" ? (Fn)o_to_bf16<double>
               : s == "f16" ? (Fn)o_to_bf16<f16>
               : s == "u8"  ? (Fn)o_to_bf16<u8>
               : s == "u16" ? (Fn)o_to_bf16<u16>
               : s == "u32" ? (Fn)o_to_bf16<u32>
               : s == "u64" ? (Fn)o_to_bf16<u64>
               : s == "s8"  ? (Fn)o_to_bf16<s8>
               : s == "s16" ? (Fn)o_to_bf16<s16>
               : s == "s32" ? (Fn)o_to_bf16<s32>
               : s == "s64" ? (Fn)o_to_bf16<s64>
                            : nullptr;
    if (s == "bf16")
        return d == "f32"   ? (Fn)o_of_bf16<float>
               : d == "f64" ? (Fn)o_of_bf16<double>
               : d == "f16" ? (Fn)o_of_bf16<f16>
               : d == "u8"  ? (Fn)o_of_bf16<u8>
               : d == "u16" ? (Fn)o_of_bf16<u16>
               : d == "u32" ? (Fn)o_of_bf16<u32>
               : d == "u64" ? (Fn)o_of_bf16<u64>
               : d == "s8"  ? (Fn)o_of_bf16<s8>
               : d == "s16" ? (Fn)o_of_bf16<s16>
               : d == "s32" ? (Fn)o_of_bf16<s32>
               : d == "s64" ? (Fn)o_of_bf16<s64>
                            : nullptr;
    return d == "f32"   ? cvt_from<float>(s)
           : d == "f64" ? cvt_from<double>(s)
           : d == "f16" ? cvt_from<f16>(s)
           : d == "u8"  ? cvt_from<u8>(s)
           : d == "u16" ? cvt_from<u16>(s)
           : d == "u32" ? cvt_from<u32>(s)
           : d == "u64" ? cvt_from<u64>(s)
           : d == "s8"  ? cvt_from<s8>(s)
           : d == "s16" ? cvt_from<s16>(s)
           : d == "s32" ? cvt_from<s32>(s)
           : d == "s64" ? cvt_from<s64>(s)
                        : nullptr;
}

// Warp-wide operations: all threads of the mask have arrived; c.R is unused.
struct WarpOp {
    Thread** lane;
    u32 present;
};
void run_warp(const Ins& x, Thread** lane, u32 present);

class Parser {
    Module& m;
    Kernel* k = nullptr;
    map<string, int> reg, width, labels;
    vector<std::pair<int, string>> fix;
    int line = 0;
    map<u64, int> constant;
    map<string, u64> shared_size, shared_align, shared_at;
    set<string> shared_dynamic, local_names;
    map<string, u64> local_at;
    int dynamic_reg = -1;
    [[noreturn]] void bad(const string& s) {
        throw ParseError("PTX line " + std::to_string(line) + (k ? " in " + k->name : "") + ": " + s);
    }
    int constant_reg(u64 v) {
        auto it = constant.find(v);
        if (it != constant.end()) return it->second;
        int r = k->nregs++;
        constant[v] = r;
        k->constants.push_back({r, v});
        return r;
    }
    void declare_memory(const string& l) {
        // [.extern|.visible|.weak] .shared|.global|.const|.local .align N .type name[M] [= {...}]
        string head = l, init;
        size_t eq = l.find('=');
        if (eq != string::npos) {
            head = trim(l.substr(0, eq));
            init = l.substr(eq + 1);
        }
        if (head.back() == ';') head.pop_back();
        u64 align = 1;
        size_t a = head.find(".align");
        if (a != string::npos) align = atoi(head.c_str() + a + 6);
        size_t b = head.find('[');
        string before = trim(head.substr(0, b));
        string name = before.substr(before.find_last_of(" \t") + 1);
        string rest = trim(before.substr(0, before.size() - name.size()));
        string type = rest.substr(rest.find_last_of('.') + 1);
        u64 each = width_of(type) / 8, count = 1;
        bool empty = false;
        if (b != string::npos) {
            string d = head.substr(b + 1, head.find(']') - b - 1);
            if (trim(d).empty())
                empty = true;
            else
                count = stoull(d);
        }
        if (!each) bad("memory " + l);
        if (align < each) align = each;
        if (head.find(".shared") != string::npos) {
            if (empty)
                shared_dynamic.insert(name);
            else
                shared_size[name] = each * count;
            shared_align[name] = align;
        } else if (head.find(".local") != string::npos) {
            u64 at = (k->local_bytes + align - 1) / align * align;
            local_at[name] = at;
            k->local_bytes = at + each * count;
        } else {
            Global& g = m.globals[name];
            g.name = name;
            g.size = each * count;
            g.mem.reset(new u8[g.size + 64]());
            size_t o = init.find('{');
            if (!init.empty()) {
                string body = o == string::npos ? init : init.substr(o + 1, init.rfind('}') - o - 1);
                u64 at = 0;
                for (auto& v : split(body, ',')) {
                    string q = trim(v);
                    while (!q.empty() && (q.back() == ';')) q.pop_back();
                    if (q.empty()) continue;
                    u64 bits;
                    if (q.rfind("0f", 0) == 0 || q.rfind("0F", 0) == 0 || q.rfind("0d", 0) == 0 || q.rfind("0D", 0) == 0)
                        bits = stoull(q.substr(2), 0, 16);
                    else {
                        char* e;
                        bits = q[0] == '-' ? (u64)strtoll(q.c_str(), &e, 0) : strtoull(q.c_str(), &e, 0);
                        if (*e && *e != 'U') bad("initialiser " + q);
                    }
                    memcpy(g.mem.get() + at, &bits, each);
                    at += each;
                }
            }
        }
    }
    int operand(const string& t0, const string& type = "") {
        string t = t0;
        auto it = reg.find(t);
        if (it != reg.end()) return it->second;
        if (t.rfind("0f", 0) == 0 || t.rfind("0F", 0) == 0) {
            u64 v = stoull(t.substr(2), 0, 16);
            if (type == "f64") {
                float f;
                u32 q = (u32)v;
                memcpy(&f, &q, 4);
                double d = f;
                memcpy(&v, &d, 8);
            }
            return constant_reg(v);
        }
        if (t.rfind("0d", 0) == 0 || t.rfind("0D", 0) == 0) {
            u64 v = stoull(t.substr(2), 0, 16);
            if (type == "f32") {
                double d;
                memcpy(&d, &v, 8);
                float f = (float)d;
                u32 q;
                memcpy(&q, &f, 4);
                v = q;
            }
            return constant_reg(v);
        }
        if (isdigit(t[0]) || t[0] == '-') {
            if (t.back() == 'U') t.pop_back();
            u64 v = t[0] == '-' ? (u64)strtoll(t.c_str(), 0, 0) : strtoull(t.c_str(), 0, 0);
            return constant_reg(v);
        }
        if (t == "WARP_SZ") return constant_reg(32);
        if (shared_dynamic.count(t)) {
            k->dynamic = true;
            if (dynamic_reg < 0) {
                dynamic_reg = k->nregs++;
                k->dynamic_regs.push_back(dynamic_reg);
            }
            return dynamic_reg;
        }
        if (shared_size.count(t)) {
            if (!shared_at.count(t)) {
                u64 al = shared_align[t], at = (k->static_shared + al - 1) / al * al;
                shared_at[t] = at;
                k->static_shared = at + shared_size[t];
            }
            return constant_reg(shared_at[t]);
        }
        if (local_at.count(t)) return constant_reg(LOCAL_TAG | local_at[t]);
        for (auto& p : k->params)
            if (p.name == t) return constant_reg(p.at);
        if (m.globals.count(t)) return constant_reg((u64)m.globals[t].mem.get());
        bad("operand " + t);
    }
    void header(const string& head) {
        size_t a = head.find('('), b = head.rfind(')');
        u32 at = 0;
        if (a == string::npos) return;
        for (auto& p : split(head.substr(a + 1, b - a - 1), ',')) {
            std::stringstream ss(p);
            string w, name;
            u32 size = 0, align = 0, want = 0;
            bool ptr = false;
            while (ss >> w) {
                if (w == ".param") continue;
                if (w == ".ptr") {
                    ptr = true;
                    continue;
                }
                if (w == ".align") {
                    ss >> w;
                    if (!ptr) want = atoi(w.c_str());
                    continue;
                }
                if (w[0] == '.') {
                    u32 q = width_of(w.substr(1)) / 8;
                    if (q) size = align = q;
                    continue;
                }
                name = w;
            }
            if (want) align = want;
            size_t o = name.find('[');
            if (o != string::npos) {
                size *= atoi(name.c_str() + o + 1);
                name = name.substr(0, o);
            }
            if (!size || name.empty()) bad("parameter " + p);
            at = (at + align - 1) / align * align;
            k->params.push_back({name, at, size, align});
            at += size;
        }
        k->param_bytes = at;
    }
    void instruction(const string& text);

public:
    explicit Parser(Module& mod) : m(mod) {}
    void parse(const string& text);
};

inline void Parser::instruction(const string& full) {
    string l = full;
    Ins x;
    x.line = line;
    x.text = full;
    if (l[0] == '@') {
        size_t sp = l.find_first_of(" \t");
        string p = l.substr(1, sp - 1);
        if (p[0] == '!') {
            x.pneg = true;
            p = p.substr(1);
        }
        if (!reg.count(p)) bad("predicate " + p);
        x.pred = reg[p];
        l = trim(l.substr(sp));
    }
    size_t sp = l.find_first_of(" \t");
    string opc = sp == string::npos ? l : l.substr(0, sp);
    vector<string> a = sp == string::npos ? vector<string>() : split(trim(l.substr(sp)), ',');
    vector<string> p;
    {
        std::stringstream ss(opc);
        string q;
        while (getline(ss, q, '.')) p.push_back(q);
    }
    const string& op = p[0];
    string t = p.back();
    const u32 w = width_of(t);
    auto has = [&](const char* s) {
        for (auto& q : p)
            if (q == s) return true;
        return false;
    };
    auto dest = [&](int i, const string& s) {
        if (s == "_") return;
        if (!reg.count(s)) bad("destination " + s + " of " + full);
        x.d[i] = reg[s];
        x.dw[i] = width[s];
    };
    auto address = [&](const string& s) {
        if (s.front() != '[' || s.back() != ']') bad("address " + s);
        string b = s.substr(1, s.size() - 2);
        size_t plus = b.find('+');
        if (plus != string::npos) {
            x.off = strtoll(b.c_str() + plus + 1, 0, 0);
            b = b.substr(0, plus);
        }
        x.base = operand(trim(b));
    };
    auto list = [&](const string& s) { return s.front() == '{' ? split(s.substr(1, s.size() - 2), ',') : vector<string>{s}; };
    auto plain = [&](Fn f, int count) {
        if (!f) bad("unknown type: " + full);
        if ((int)a.size() != count + 1) bad("operands of " + full);
        x.fn = f;
        dest(0, a[0]);
        for (int i = 0; i < count; ++i) x.s[i] = operand(a[i + 1], t);
    };
    if (op == "ret" || op == "exit") {
        x.fn = o_exit;
        x.kind = EXIT;
    } else if (op == "trap" || op == "brkpt")
        x.fn = o_trap;
    else if (op == "bra") {
        x.fn = o_bra;
        fix.push_back({(int)k->code.size(), a[0]});
    } else if ((op == "bar" && p[1] == "sync") || (op == "barrier" && (has("sync")))) {
        if (a[0] != "0") bad("barrier " + full);
        x.fn = o_nop;
        x.kind = BARRIER;
        k->barrier = true;
    } else if (op == "bar" && p[1] == "warp") {
        x.fn = o_nop;
        x.kind = WARP;
        x.sub = 100;
        x.s[4] = operand(a[0]);
        k->barrier = true;
    } else if (op == "membar" || op == "fence" || op == "prefetch" || op == "discard" || op == "pragma")
        x.fn = o_nop;
    else if (op == "shfl" && has("sync")) {
        x.kind = WARP;
        x.fn = o_nop;
        k->barrier = true;
        x.sub = has("down") ? 0 : has("up") ? 1 : has("bfly") ? 2 : 3;
        auto ds = split(a[0], '|');
        dest(0, ds[0]);
        if (ds.size() > 1) x.d2 = reg[ds[1]];
        for (int i = 0; i < 3; ++i) x.s[i] = operand(a[i + 1]);
        x.s[4] = operand(a[4]);
    } else if (op == "vote" && has("sync")) {
        x.kind = WARP;
        x.fn = o_nop;
        k->barrier = true;
        x.sub = has("ballot") ? 10 : has("any") ? 11 : has("all") ? 12 : 13;
        dest(0, a[0]);
        string q = a[1];
        if (q[0] == '!') {
            x.hasp = true;
            q = q.substr(1);
        }
        x.s[0] = operand(q);
        x.s[4] = operand(a[2]);
    } else if (op == "activemask") {
        x.kind = WARP;
        x.fn = o_nop;
        k->barrier = true;
        x.sub = 20;
        dest(0, a[0]);
        x.s[4] = -1;
    } else if (op == "ld" || op == "ldu" || op == "st") {
        bool store = op == "st";
        x.space = has("global")                         ? GLOBAL
                  : has("shared") || has("shared::cta") ? SHARED
                  : has("param")                        ? PARAM
                  : has("local")                        ? LOCAL
                  : has("const")                        ? GLOBAL
                                                        : GENERIC;
        x.n = has("v2") ? 2 : has("v4") ? 4 : 1;
        auto v = list(a[store ? 1 : 0]);
        if ((int)v.size() != x.n || !w) bad("vector of " + full);
        for (int i = 0; i < x.n; ++i) {
            if (store)
                x.s[i] = operand(v[i], t);
            else
                dest(i, v[i]);
        }
        address(a[store ? 0 : 1]);
        x.fn = x.space == GLOBAL   ? (store ? store_of<GLOBAL>(t) : load_of<GLOBAL>(t))
               : x.space == SHARED ? (store ? store_of<SHARED>(t) : load_of<SHARED>(t))
               : x.space == PARAM  ? (store ? store_of<PARAM>(t) : load_of<PARAM>(t))
               : x.space == LOCAL  ? (store ? store_of<LOCAL>(t) : load_of<LOCAL>(t))
                                   : (store ? store_of<GENERIC>(t) : load_of<GENERIC>(t));
    } else if (op == "atom" || op == "red") {
        x.space = has("shared") ? SHARED : has("global") ? GLOBAL : GENERIC;
        int q = op == "atom";
        x.sub = has("add")    ? A_ADD
                : has("min")  ? A_MIN
                : has("max")  ? A_MAX
                : has("exch") ? A_EXCH
                : has("cas")  ? A_CAS
                : has("and")  ? A_AND
                : has("or")   ? A_OR
                : has("xor")  ? A_XOR
                : has("inc")  ? A_INC
                : has("dec")  ? A_DEC
                              : 255;
        if (x.sub == 255) bad(full);
        if (q) dest(0, a[0]);
        address(a[q]);
        x.s[0] = operand(a[q + 1], t);
        if (x.sub == A_CAS) x.s[1] = operand(a[q + 2], t);
        x.fn = BY_ANY(o_atom);
        if (!x.fn || w < 16) bad(full);
    } else if (op == "mov") {
        if (a[0].front() == '{') {
            auto v = list(a[0]);
            x.n = v.size();
            x.w = w;
            for (int i = 0; i < x.n; ++i) dest(i, v[i]);
            x.s[0] = operand(a[1], t);
            x.fn = o_unpack;
        } else if (a[1].front() == '{') {
            auto v = list(a[1]);
            x.n = v.size();
            x.w = w;
            dest(0, a[0]);
            for (int i = 0; i < x.n; ++i) x.s[i] = operand(v[i]);
            x.fn = o_pack;
        } else if (a[1][0] == '%' && !reg.count(a[1])) {
            static const map<string, int> sp = {{"%tid.x", 0},    {"%tid.y", 1},     {"%tid.z", 2},        {"%ntid.x", 4},
                                                {"%ntid.y", 5},   {"%ntid.z", 6},    {"%ctaid.x", 8},      {"%ctaid.y", 9},
                                                {"%ctaid.z", 10}, {"%nctaid.x", 12}, {"%nctaid.y", 13},    {"%nctaid.z", 14},
                                                {"%laneid", 16},  {"%warpid", 17},   {"%lanemask_eq", 19}, {"%lanemask_lt", 20}};
            auto it = sp.find(a[1]);
            if (it == sp.end()) bad(full);
            x.sub = it->second;
            dest(0, a[0]);
            x.fn = o_special;
        } else
            plain(t == "pred" ? (Fn)o_mov<bool>
                  : w == 16   ? (Fn)o_mov<u16>
                  : w == 32   ? (Fn)o_mov<u32>
                  : w == 64   ? (Fn)o_mov<u64>
                              : nullptr,
                  1);
    } else if (op == "cvta") {
        plain(o_mov<u64>, 1);
        if (has("shared")) {
            x.fn = has("to") ? (Fn)[](Ctx & c, const Ins& i) { c.R[i.d[0]] = (u32)c.R[i.s[0]]; } : (Fn)[](Ctx& c, const Ins& i) { c.R[i.d[0]] = SHARED_TAG | c.R[i.s[0]]; };
        }
    } else if (op == "cvt") {
        x.sub = has("rni") ? 1 : has("rzi") ? 2 : has("rmi") ? 3 : has("rpi") ? 4 : 0;
        x.hasp = has("sat");
        const string& dt = p[p.size() - 2];
        x.fn = cvt_of(dt, t);
        if (!x.fn || a.size() != 2) bad(full);
        dest(0, a[0]);
        x.s[0] = operand(a[1], t);
    } else if (op == "setp" || op == "set") {
        static const map<string, int> cs = {{"eq", EQ},   {"ne", NE},   {"lt", LT},   {"le", LE},   {"gt", GT},   {"ge", GE},
                                            {"lo", LT},   {"ls", LE},   {"hi", GT},   {"hs", GE},   {"equ", EQU}, {"neu", NEU},
                                            {"ltu", LTU}, {"leu", LEU}, {"gtu", GTU}, {"geu", GEU}, {"num", NUM}, {"nan", NAN_}};
        auto it = cs.find(p[1]);
        if (it == cs.end()) bad(full);
        x.sub = it->second;
        x.n = 0;
        if (op == "setp") {
            auto ds = split(a[0], '|');
            dest(0, ds[0]);
            if (ds.size() > 1) {
                if (!reg.count(ds[1])) bad(full);
                x.d2 = reg[ds[1]];
            }
            x.fn = BY_ANY(o_setp);
            if (a.size() == 4) {
                x.n = has("and") ? 1 : has("or") ? 2 : 3;
                string q = a[3];
                if (q[0] == '!') {
                    x.hasp = true;
                    q = q.substr(1);
                }
                x.s[2] = operand(q);
            }
        } else {
            dest(0, a[0]);
            x.w = p[2] == "f32";
            x.fn = BY_ANY(o_set);
        }
        if (!x.fn) bad(full);
        x.s[0] = operand(a[1], t);
        x.s[1] = operand(a[2], t);
    } else if (op == "add") {
        if (has("cc")) bad(full);
        plain(BY_ANY(o_add), 2);
    } else if (op == "sub") {
        if (has("cc")) bad(full);
        plain(BY_ANY(o_sub), 2);
    } else if (op == "mul" && has("wide"))
        plain(BY_WIDE(o_mulwide), 2);
    else if (op == "mul" && has("hi"))
        plain(BY_INT(o_mulhi), 2);
    else if (op == "mul")
        plain(BY_ANY(o_mul), 2);
    else if (op == "mul24")
        plain(BY_INT(o_mul), 2);
    else if (op == "mad" && has("wide"))
        plain(BY_WIDE(o_madwide), 3);
    else if (op == "mad" && has("hi"))
        plain(BY_INT(o_madhi), 3);
    else if (op == "mad" || op == "fma")
        plain(BY_ANY(o_mad), 3);
    else if (op == "div")
        plain(BY_ANY(o_div), 2);
    else if (op == "rem")
        plain(BY_INT(o_rem), 2);
    else if (op == "min")
        plain(BY_ANY(o_min), 2);
    else if (op == "max")
        plain(BY_ANY(o_max), 2);
    else if (op == "neg")
        plain(BY_ANY(o_neg), 1);
    else if (op == "abs")
        plain(BY_ANY(o_abs), 1);
    else if (op == "sqrt")
        plain(BY_FLOAT(o_sqrt), 1);
    else if (op == "rcp")
        plain(BY_FLOAT(o_rcp), 1);
    else if (op == "rsqrt")
        plain(BY_FLOAT(o_rsqrt), 1);
    else if (op == "ex2")
        plain(BY_FLOAT(o_ex2), 1);
    else if (op == "lg2")
        plain(BY_FLOAT(o_lg2), 1);
    else if (op == "sin")
        plain(BY_FLOAT(o_sin), 1);
    else if (op == "cos")
        plain(BY_FLOAT(o_cos), 1);
    else if (op == "and")
        plain(BY_BITS(o_and), 2);
    else if (op == "or")
        plain(BY_BITS(o_or), 2);
    else if (op == "xor")
        plain(BY_BITS(o_xor), 2);
    else if (op == "not")
        plain(BY_BITS(o_not), 1);
    else if (op == "shl")
        plain(BY_INT(o_shl), 2);
    else if (op == "shr")
        plain(BY_INT(o_shr), 2);
    else if (op == "selp")
        plain(BY_ANY(o_selp), 3);
    else if (op == "shf") {
        x.sub = has("clamp");
        plain(has("l") ? o_shfl_l : o_shfl_r, 3);
    } else if (op == "prmt") {
        if (p.size() != 2) bad(full);
        plain(o_prmt, 3);
    } else if (op == "bfi")
        plain(BY_INT(o_bfi), 4);
    else if (op == "bfe")
        plain(BY_INT(o_bfe), 3);
    else if (op == "popc")
        plain(BY_INT(o_popc), 1);
    else if (op == "clz")
        plain(BY_INT(o_clz), 1);
    else if (op == "brev")
        plain(BY_INT(o_brev), 1);
    else if (op == "lop3")
        plain(o_lop3, 4);
    else
        bad("unknown instruction: " + full);
    if (!x.fn) bad("unknown instruction: " + full);
    k->code.push_back(std::move(x));
}

inline void Parser::parse(const string& text) {
    std::stringstream in(text);
    string raw, pending, head;
    bool in_header = false, skipping = false;
    int depth = 0;
    string clean;
    {
        bool block = false;
        for (size_t i = 0; i < text.size(); ++i) {
            if (!block && text[i] == '/' && i + 1 < text.size() && text[i + 1] == '*') block = true;
            if (block) {
                if (text[i] == '*' && text[i + 1] == '/') {
                    block = false;
                    ++i;
                } else if (text[i] == '\n')
                    clean += '\n';
                continue;
            }
            clean += text[i];
        }
    }
    in.str(clean);
    vector<string> queue;
    auto next = [&]() {
        if (!queue.empty()) {
            raw = queue.front();
            queue.erase(queue.begin());
            return true;
        }
        if (!getline(in, raw)) return false;
        ++line;
        string q = trim(raw.substr(0, raw.find("//")));
        if (k && pending.empty() && q.size() > 1 && q[0] == '{') {
            queue.push_back(q.substr(1));
            raw = "{";
            q = queue[0];
        } else if (!(q.size() > 2 && q.back() == '}' && q[q.size() - 2] == ';'))
            return true;
        if (q.size() > 2 && q.back() == '}' && q[q.size() - 2] == ';') {
            q.pop_back();
            if (queue.empty())
                raw = q;
            else
                queue[0] = q;
            queue.push_back("}");
        }
        return true;
    };
    while (next()) {
        size_t cm = raw.find("//");
        if (cm != string::npos) raw = raw.substr(0, cm);
        string l = trim(raw);
        if (l.empty()) continue;
        if (skipping) {
            for (char q : l) {
                if (q == '{') ++depth;
                if (q == '}') --depth;
            }
            if ((depth == 0 && l.find('}') != string::npos) || (depth == 0 && l.back() == ';')) skipping = false;
            continue;
        }
        if (in_header) {
            head += " " + l;
            if (l.find(')') != string::npos) {
                in_header = false;
                header(head);
            }
            continue;
        }
        if (!pending.empty()) {
            pending += " " + l;
            if (l.back() != ';') continue;
            l = pending;
            pending.clear();
        }
        if (!k) {
            if (l.rfind(".version", 0) == 0 || l.rfind(".target", 0) == 0 || l.rfind(".address_size", 0) == 0 ||
                l.rfind(".file", 0) == 0)
                continue;
            if (l.rfind(".section", 0) == 0) {
                break;
            }
            size_t e = l.find(".entry ");
            if (e != string::npos) {
                string n = trim(l.substr(e + 7));
                n = trim(n.substr(0, n.find('(')));
                auto& slot = m.kernels[n];
                slot.reset(new Kernel);
                k = slot.get();
                k->name = n;
                reg.clear();
                width.clear();
                labels.clear();
                fix.clear();
                constant.clear();
                shared_at.clear();
                local_at.clear();
                dynamic_reg = -1;
                head = l;
                in_header = l.find(')') == string::npos;
                if (!in_header) header(head);
                continue;
            }
            if (l.find(".func") != string::npos) {
                skipping = true;
                depth = 0;
                for (char q : l) {
                    if (q == '{') ++depth;
                    if (q == '}') --depth;
                }
                if (l.back() == ';') skipping = false;
                continue;
            }
            if (l.find(".shared") != string::npos || l.find(".global") != string::npos || l.find(".const") != string::npos) {
                if (l.back() != ';') {
                    pending = l;
                    continue;
                }
                declare_memory(l);
                continue;
            }
            bad(l);
        }
        if (l == "{") {
            ++depth;
            continue;
        }
        if (l == "}") {
            if (--depth > 0) continue;
            depth = 0;
            for (auto& [i, n] : fix) {
                if (!labels.count(n)) bad("label " + n);
                k->code[i].target = labels[n];
            }
            {
                Ins x;
                x.fn = o_exit;
                x.kind = EXIT;
                x.text = "end";
                k->code.push_back(x);
            }
            k = nullptr;
            continue;
        }
        if (l.rfind(".maxntid", 0) == 0) {
            u32 a = 1, b = 1, c = 1;
            sscanf(l.c_str(), ".maxntid %u, %u, %u", &a, &b, &c);
            k->maxntid = a * (b ? b : 1) * (c ? c : 1);
            continue;
        }
        if (l.rfind(".minnctapersm", 0) == 0 || l.rfind(".pragma", 0) == 0 || l.rfind(".loc", 0) == 0 ||
            l.rfind(".maxnreg", 0) == 0 || l.rfind(".reqntid", 0) == 0) {
            if (l.rfind(".local", 0) != 0) {
                if (l.rfind(".loc", 0) == 0 && l.rfind(".local", 0) != 0) continue;
                if (l.rfind(".loc", 0) != 0) continue;
            }
        }
        if (l.rfind(".reg", 0) == 0) {
            if (l.back() == ';') l.pop_back();
            std::stringstream ss(l.substr(4));
            string ty;
            ss >> ty;
            string rest;
            getline(ss, rest);
            u32 w = width_of(ty.substr(1));
            if (!w) bad(l);
            for (auto& n : split(rest, ',')) {
                size_t lt = n.find('<');
                if (lt == string::npos) {
                    reg[n] = k->nregs++;
                    width[n] = w;
                } else {
                    int cnt = atoi(n.c_str() + lt + 1);
                    string b = n.substr(0, lt);
                    for (int i = 0; i < cnt; ++i) {
                        string q = b + std::to_string(i);
                        reg[q] = k->nregs++;
                        width[q] = w;
                    }
                }
            }
            continue;
        }
        if (l[0] == '.') {
            if (l.back() != ';') {
                pending = l;
                continue;
            }
            declare_memory(l);
            continue;
        }
        if (l[0] == '$' && l.find(':') != string::npos && l.find_first_of(" \t") == string::npos) {
            labels[l.substr(0, l.size() - 1)] = k->code.size();
            continue;
        }
        if (l.back() == ':') {
            labels[l.substr(0, l.size() - 1)] = k->code.size();
            continue;
        }
        if (l.back() != ';') {
            pending = l;
            continue;
        }
        for (auto& s : split(l, ';'))
            if (!trim(s).empty() && trim(s) != "{" && trim(s) != "}") {
                string q = trim(s);
                if (q[0] == '{') q = trim(q.substr(1));
                if (q.rfind(".reg", 0) == 0) {
                    std::stringstream ss(q.substr(4));
                    string ty, rest;
                    ss >> ty;
                    getline(ss, rest);
                    for (auto& n : split(rest, ',')) {
                        reg[n] = k->nregs++;
                        width[n] = width_of(ty.substr(1));
                    }
                    continue;
                }
                instruction(q);
            }
    }
}

// ---- execution
inline void run_warp(const Ins& x, Thread** lane, u32 present) {
    if (x.sub == 100) return;
    u64 a[32] = {};
    for (int i = 0; i < 32; ++i)
        if (present >> i & 1 && x.s[0] >= 0) a[i] = lane[i]->r[x.s[0]];
    if (x.sub >= 10) {
        u32 votes = 0;
        if (x.sub < 20)
            for (int i = 0; i < 32; ++i)
                if (present >> i & 1 && ((a[i] & 1) != 0) != x.hasp) votes |= 1u << i;
        u64 v = x.sub == 10   ? votes
                : x.sub == 11 ? votes != 0
                : x.sub == 12 ? votes == present
                : x.sub == 20 ? present
                              : votes == present || votes == 0;
        for (int i = 0; i < 32; ++i)
            if (present >> i & 1) lane[i]->r[x.d[0]] = v;
        return;
    }
    u64 out[32];
    bool ok[32];
    for (int i = 0; i < 32; ++i)
        if (present >> i & 1) {
            u32 b = (u32)lane[i]->r[x.s[1]] & 31, c = (u32)lane[i]->r[x.s[2]], clamp = c & 31, seg = c >> 8 & 31;
            int maxl = (i & seg) | (clamp & ~seg), minl = i & seg, j;
            bool p;
            if (x.sub == 0) {
                j = i + (int)b;
                p = j <= maxl;
            } else if (x.sub == 1) {
                j = i - (int)b;
                p = j >= maxl;
            } else if (x.sub == 2) {
                j = i ^ (int)b;
                p = j <= maxl;
            } else {
                j = minl | (b & ~seg);
                p = j <= maxl;
            }
            if (!p) j = i;
            out[i] = (u32)a[j & 31];
            ok[i] = p;
        }
    for (int i = 0; i < 32; ++i)
        if (present >> i & 1) {
            lane[i]->r[x.d[0]] = out[i];
            if (x.d2 >= 0) lane[i]->r[x.d2] = ok[i];
        }
}
struct Launch {
    const Kernel* k;
    u32 grid[3], block[3], dynamic;
    const u8* param;
    Check check;
    u64 generation;
};
inline void step(Ctx& c, u8& state) {  // until the thread ends (1), or waits at a barrier (2) or for its warp (3)
    const Ins* code = c.k->code.data();
    c.stop = false;
    for (;;) {
        const Ins& x = code[c.pc++];
        if (x.pred >= 0 && ((c.R[x.pred] & 1) != 0) == x.pneg) continue;
        x.fn(c, x);
        if (x.kind != PLAIN) {
            state = x.kind == EXIT ? 1 : x.kind == BARRIER ? 2 : 3;
            return;
        }
    }
}
inline u64 execute(const Launch& l) {
    const Kernel& k = *l.k;
    const u32 threads = l.block[0] * l.block[1] * l.block[2];
    u64 at = (k.static_shared + 15) / 16 * 16, total = k.dynamic ? at + l.dynamic : std::max<u64>(k.static_shared, l.dynamic);
    vector<u8> shared(total + 16);
    u8* sh = (u8*)(((u64)shared.data() + 15) / 16 * 16);
    static thread_local vector<Thread> pool;
    const u32 need = k.barrier ? threads : 1;
    if (pool.size() < need) pool.resize(need);
    Ctx c;
    c.k = &k;
    c.shared = sh;
    c.shared_size = total;
    c.param = l.param;
    c.check = l.check;
    c.generation = l.generation;
    for (int i = 0; i < 3; ++i) {
        c.ntid[i] = l.block[i];
        c.nctaid[i] = l.grid[i];
    }
    for (u32 i = 0; i < need; ++i) {
        Thread& t = pool[i];
        t.r.assign(k.nregs, 0xDEADBEEFDEADBEEFull);
        for (auto& [r, v] : k.constants) t.r[r] = v;
        for (int r : k.dynamic_regs) t.r[r] = at;
        t.local.assign(k.local_bytes + 16, 0xCD);
    }
    for (u32 bz = 0; bz < l.grid[2]; ++bz)
        for (u32 by = 0; by < l.grid[1]; ++by)
            for (u32 bx = 0; bx < l.grid[0]; ++bx) {
                c.ctaid[0] = bx;
                c.ctaid[1] = by;
                c.ctaid[2] = bz;
                if (total) memset(sh, 0xCD, total);
                if (!k.barrier) {
                    Thread& t = pool[0];
                    c.R = t.r.data();
                    c.local = t.local.data();
                    u32 i = 0;
                    u8 state;
                    for (u32 z = 0; z < l.block[2]; ++z)
                        for (u32 y = 0; y < l.block[1]; ++y)
                            for (u32 x = 0; x < l.block[0]; ++x) {
                                c.tid[0] = x;
                                c.tid[1] = y;
                                c.tid[2] = z;
                                c.linear = i++;
                                c.pc = 0;
                                step(c, state);
                            }
                    continue;
                }
                for (u32 i = 0; i < threads; ++i) {
                    Thread& t = pool[i];
                    t.pc = 0;
                    t.state = 0;
                    t.tid[0] = i % l.block[0];
                    t.tid[1] = i / l.block[0] % l.block[1];
                    t.tid[2] = i / l.block[0] / l.block[1];
                }
                for (;;) {
                    bool live = false;
                    for (u32 wp = 0; wp < threads; wp += 32)
                        for (;;) {
                            const u32 n = std::min(32u, threads - wp);
                            bool waits = false;
                            for (u32 i = wp; i < wp + n; ++i) {
                                Thread& t = pool[i];
                                if (t.state == 0) {
                                    c.R = t.r.data();
                                    c.local = t.local.data();
                                    memcpy(c.tid, t.tid, sizeof c.tid);
                                    c.linear = i;
                                    c.pc = t.pc;
                                    step(c, t.state);
                                    t.pc = c.pc;
                                }
                                if (t.state == 3) waits = true;
                            }
                            if (!waits) break;
                            bool progress = false;
                            for (u32 i = wp; i < wp + n; ++i)
                                if (pool[i].state == 3) {
                                    const int pc = pool[i].pc;
                                    const Ins& x = k.code[pc - 1];
                                    u32 present = 0, member = x.s[4] >= 0 ? (u32)pool[i].r[x.s[4]] : 0;
                                    Thread* lane[32] = {};
                                    for (u32 j = 0; j < n; ++j)
                                        if (pool[wp + j].state == 3 && pool[wp + j].pc == pc) {
                                            present |= 1u << j;
                                            lane[j] = &pool[wp + j];
                                        }
                                    u32 gone = 0;
                                    for (u32 j = 0; j < 32; ++j)
                                        if (j >= n || pool[wp + j].state == 1) gone |= 1u << j;
                                    if (x.s[4] >= 0 && (member & ~gone & ~present)) continue;  // not all are here yet
                                    run_warp(x, lane, present);
                                    for (u32 j = 0; j < n; ++j)
                                        if (lane[j]) lane[j]->state = 0;
                                    progress = true;
                                    break;
                                }
                            if (!progress) throw Fault(719, "threads of a warp wait for each other for ever in kernel " + k.name);
                        }
                    for (u32 i = 0; i < threads; ++i)
                        if (pool[i].state == 2) {
                            pool[i].state = 0;
                            live = true;
                        }
                    if (!live) break;
                }
            }
    return 0;
}
}  // namespace ptx
