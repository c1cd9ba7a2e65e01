// A stand-in for NVIDIA's libcuda.so.1: device memory is a private mapping of the host, and kernels run in a PTX interpreter
// (interp.hpp). For tests of programs that use CuPy. See README.md beside this file for the settings (environment variables
// SIMCUDA_...).
#include <cuda.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdarg>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include "interp.hpp"
using namespace std;
using ptx::s64;
using ptx::u32;
using ptx::u64;
using ptx::u8;

static const char* setting(const char* n, const char* d) {
    const char* v = getenv(n);
    return v && *v ? v : d;
}
static const int DEVICES = atoi(setting("SIMCUDA_DEVICES", "2")), SMS = atoi(setting("SIMCUDA_SMS", "132")),
                 CC = atoi(setting("SIMCUDA_CC", "90")), VERSION = atoi(setting("SIMCUDA_VERSION", "13000"));
static const u64 MEMORY = (u64)(atof(setting("SIMCUDA_MEMORY_GB", "4")) * (1ull << 30));
static const int LATE = atoi(setting("SIMCUDA_LATE", "0"));  // 0: at once; 1: as late as possible; N: in a random order, seed N
static const bool STICKY = atoi(setting("SIMCUDA_STICKY", "0")), TRACE = atoi(setting("SIMCUDA_TRACE", "0")),
                  STATS = atoi(setting("SIMCUDA_STATS", "0")), QUIET = atoi(setting("SIMCUDA_QUIET", "0"));
static const int POLLS =
    atoi(setting("SIMCUDA_POLLS", "50"));  // queries of an event or a stream that say "not ready" before it gets ready
static void say(const char* f, ...) {
    if (QUIET) return;
    va_list a;
    va_start(a, f);
    fprintf(stderr, "simcuda: ");
    vfprintf(stderr, f, a);
    fputc('\n', stderr);
    va_end(a);
    fflush(stderr);
}
struct Err {
    CUresult code;
};
[[noreturn]] static void fail(CUresult c, const char* why, ...) {
    if (!QUIET) {
        va_list a;
        va_start(a, why);
        fprintf(stderr, "simcuda: error %d: ", (int)c);
        vfprintf(stderr, why, a);
        fputc('\n', stderr);
        va_end(a);
    }
    throw Err{c};
}
[[noreturn]] static void silent(CUresult c) { throw Err{c}; }

// ---- one lock for all; let go while a host function runs
static recursive_mutex lock_;
static thread_local int depth_ = 0;
struct Locked {
    Locked() {
        lock_.lock();
        ++depth_;
    }
    ~Locked() {
        --depth_;
        lock_.unlock();
    }
};
struct Unlocked {
    int n = depth_;
    Unlocked() {
        for (int i = 0; i < n; ++i) {
            --depth_;
            lock_.unlock();
        }
    }
    ~Unlocked() {
        for (int i = 0; i < n; ++i) {
            lock_.lock();
            ++depth_;
        }
    }
};

// ---- memory
enum MemKind { DEVICE, HOST, MANAGED, REGISTERED, GLOBALS };
struct Alloc {
    u64 base, size;
    int device;
    MemKind kind;
    s64 delta;
    bool freed;
    u64 number;
};
static map<u64, Alloc> allocs, freed;
static u64 region = 0, region_size = 1ull << 40, region_at = 4096;
static s64 DELTA = 0;
static int memory_fd = -1;
static u64 used[16], peak[16], alloc_count = 0, memory_generation = 1;
static set<pair<int, int>> peers;
static void reserve() {
    if (region) return;
    memory_fd = memfd_create("simcuda", 0);
    if (memory_fd < 0 || ftruncate(memory_fd, region_size)) {
        perror("simcuda: memfd");
        abort();
    }
    void* a = mmap((void*)0x300000000000ull, region_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* b = mmap((void*)0x500000000000ull, region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_fd, 0);
    if (a == MAP_FAILED || b == MAP_FAILED) {
        perror("simcuda: mmap");
        abort();
    }
    region = (u64)a;
    DELTA = (s64)((u64)b - (u64)a);
}
static Alloc* find_alloc(u64 at) {
    auto it = allocs.upper_bound(at);
    if (it == allocs.begin()) return nullptr;
    --it;
    Alloc& a = it->second;
    return at < a.base + max<u64>(a.size, 1) ? &a : nullptr;
}
static string near_text(u64 at) {
    char b[300];
    auto show = [&](map<u64, Alloc>& m, const char* what) -> string {
        auto it = m.upper_bound(at);
        if (it == m.begin()) return "";
        --it;
        Alloc& a = it->second;
        if (at - a.base > a.size + (1 << 20)) return "";
        snprintf(b, sizeof b, " [%s block #%" PRIu64 " of %" PRIu64 " bytes at %#" PRIx64 " on device %d: offset %" PRId64 "]",
                 what, a.number, a.size, a.base, a.device, (s64)(at - a.base));
        return b;
    };
    return show(allocs, "live") + show(freed, "FREED");
}
static u64 allocate(u64 size, int device, MemKind kind) {
    if (kind == DEVICE || kind == MANAGED) {
        if (used[device] + size > MEMORY) silent(CUDA_ERROR_OUT_OF_MEMORY);
        reserve();
        const u64 align = size >= 4096 ? 4096 : 512;
        region_at = (region_at + align - 1) / align * align;
        u64 base = region + region_at;
        region_at += size + 512;
        if (region_at > region_size) fail(CUDA_ERROR_OUT_OF_MEMORY, "the region is used up");
        allocs[base] = {base, size, device, kind, DELTA, false, ++alloc_count};
        used[device] += size;
        peak[device] = max(peak[device], used[device]);
        if (size <= (64u << 20)) memset((void*)(base + DELTA), 0xA5, size);
        ++memory_generation;
        return base;
    }
    void* m = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    memset(m, 0xA5, size);
    u64 base = (u64)m;
    allocs[base] = {base, size, device, kind, 0, false, ++alloc_count};
    ++memory_generation;
    return base;
}
static void release(u64 base, bool host) {
    auto it = allocs.find(base);
    if (it == allocs.end())
        fail(CUDA_ERROR_INVALID_VALUE, "free of %#" PRIx64 ", which is no block%s", base, near_text(base).c_str());
    Alloc a = it->second;
    if (host != (a.kind == HOST)) fail(CUDA_ERROR_INVALID_VALUE, "free of a block of the other kind");
    allocs.erase(it);
    ++memory_generation;
    if (host) {
        free((void*)base);
        return;
    }
    used[a.device] -= a.size;
    freed[base] = a;
    if (a.size <= (1u << 20)) memset((void*)(base + DELTA), 0xDB, a.size);
    if (a.size >= 8192) {
        u64 lo = (base - region + 4095) / 4096 * 4096, hi = (base - region + a.size) / 4096 * 4096;
        if (hi > lo) madvise((void*)(region + DELTA + lo), hi - lo, MADV_REMOVE);
    }
}
// The address on the host of memory that a copy reads or writes. Pointers that are no device memory are pointers of the host.
static u8* host_of(u64 at, u64 n, const char* what) {
    if (region && at >= region && at < region + region_size) {
        Alloc* a = find_alloc(at);
        if (!a || at + n > a->base + a->size)
            fail(CUDA_ERROR_INVALID_VALUE, "%s of %" PRIu64 " bytes at %#" PRIx64 " outside of a block%s", what, n, at,
                 near_text(at).c_str());
        return (u8*)(at + a->delta);
    }
    return (u8*)at;
}
static bool pageable(u64 at) { return !find_alloc(at); }

// ---- contexts
struct StreamObj;
struct Context {
    int device;
    int sticky = 0;
    map<void*, pair<void*, void (*)(CUcontext, void*, void*)>> storage;
    shared_ptr<StreamObj> legacy;
    int retained = 0;
    unsigned flags = 0;
    size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
};
static Context contexts[16];
static thread_local vector<Context*> current_;
static bool inited = false;
static Context* current() { return current_.empty() ? nullptr : current_.back(); }
static Context* need() {
    if (!inited) silent(CUDA_ERROR_NOT_INITIALIZED);
    Context* c = current();
    if (!c) fail(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    if (c->sticky) silent((CUresult)c->sticky);
    return c;
}
static Context* context_of(CUcontext c) {
    for (int i = 0; i < DEVICES; ++i)
        if ((void*)&contexts[i] == (void*)c) return &contexts[i];
    fail(CUDA_ERROR_INVALID_CONTEXT, "no context %p", (void*)c);
}
static void device_ok(int d) {
    if (!inited) silent(CUDA_ERROR_NOT_INITIALIZED);
    if (d < 0 || d >= DEVICES) silent(CUDA_ERROR_INVALID_DEVICE);
}

// ---- streams
struct Capture;
struct StreamObj;
struct Dep {
    shared_ptr<StreamObj> stream;
    u64 index;
};
struct Op {
    function<void()> run;
    vector<Dep> deps;
    string what;
};
struct Node {
    string what;
    function<void()> run;
    CUgraphNodeType type;
};
struct GraphObj {
    vector<Node> nodes;
};
struct Capture {
    shared_ptr<GraphObj> graph = make_shared<GraphObj>();
    CUstreamCaptureMode mode;
    StreamObj* origin;
    std::thread::id thread;
    bool invalid = false;
    u64 id;
    set<StreamObj*> joined;
};
struct StreamObj : enable_shared_from_this<StreamObj> {
    Context* ctx;
    bool blocking = true, legacy = false, alive = true;
    int priority = 0;
    unsigned flags = 0;
    u64 id;
    deque<Op> q;
    u64 done = 0, enq = 0;
    shared_ptr<Capture> capture;
    bool unjoined = false;
    int polls = 0;
};
static vector<shared_ptr<StreamObj>> streams;
static set<StreamObj*> stream_handles;
static u64 stream_ids = 0, capture_ids = 0;
static mt19937 rng(LATE);
static u64 launches = 0;
struct EventObj {
    Context* ctx;
    unsigned flags;
    shared_ptr<StreamObj> stream;
    u64 index = 0;
    double time = 0;
    shared_ptr<Capture> captured;
    StreamObj* captured_on = nullptr;
    int polls = 0;
    bool recorded = false;
};
static set<EventObj*> event_handles;
static map<u64, u64> wait_counts;
static shared_ptr<StreamObj> make_stream(Context* c, bool blocking) {
    auto s = make_shared<StreamObj>();
    s->ctx = c;
    s->blocking = blocking;
    s->id = ++stream_ids;
    streams.push_back(s);
    return s;
}
static shared_ptr<StreamObj> legacy_of(Context* c) {
    if (!c->legacy) {
        c->legacy = make_stream(c, true);
        c->legacy->legacy = true;
    }
    return c->legacy;
}
static thread_local map<Context*, shared_ptr<StreamObj>> per_thread;
static shared_ptr<StreamObj> resolve(CUstream h, bool ptds = false) {
    if (h == nullptr) {
        Context* c = need();
        if (!ptds) return legacy_of(c);
        h = CU_STREAM_PER_THREAD;
    }
    if (h == CU_STREAM_LEGACY) return legacy_of(need());
    if (h == CU_STREAM_PER_THREAD) {
        Context* c = need();
        auto& s = per_thread[c];
        if (!s) s = make_stream(c, true);
        return s;
    }
    if (!stream_handles.count((StreamObj*)h))
        fail(CUDA_ERROR_INVALID_HANDLE, "no stream %p: it was destroyed, or never made", (void*)h);
    auto s = ((StreamObj*)h)->shared_from_this();
    if (s->ctx->sticky) silent((CUresult)s->ctx->sticky);
    return s;
}
static void run_one(const shared_ptr<StreamObj>& s);
static void run_until(const shared_ptr<StreamObj>& s, u64 index) {
    while (s->done < index) run_one(s);
}
static void run_op(Context* c, const string& what, const function<void()>& f) {
    if (c->sticky) return;
    try {
        f();
    } catch (ptx::Fault& e) {
        fprintf(stderr, "simcuda: FAULT %d on device %d: %s\n", e.code, c->device, e.what());
        fflush(stderr);
        if (!STICKY) abort();
        c->sticky = e.code;
    }
}
static void run_one(const shared_ptr<StreamObj>& s) {
    Op op = std::move(s->q.front());
    s->q.pop_front();
    for (auto& d : op.deps) run_until(d.stream, d.index);
    run_op(s->ctx, op.what, op.run);
    ++s->done;
}
static void tidy() {
    if (streams.size() > 4096) {
        vector<shared_ptr<StreamObj>> keep;
        for (auto& s : streams)
            if (s->alive || s->done < s->enq) keep.push_back(s);
        streams.swap(keep);
    }
}
static void run_all(Context* c) {
    for (size_t i = 0; i < streams.size(); ++i) {
        auto s = streams[i];
        if (!c || s->ctx == c) run_until(s, s->enq);
    }
    tidy();
}
static shared_ptr<StreamObj> implicit_capture(Context* c) {
    for (auto& s : streams)
        if (s->ctx == c && s->capture && s->blocking && !s->legacy) return s;
    return nullptr;
}
static void invalidate(StreamObj* s) {
    if (s->capture) s->capture->invalid = true;
}
static void not_legacy_during_capture(const shared_ptr<StreamObj>& s) {
    if (s->legacy)
        if (auto q = implicit_capture(s->ctx)) {
            invalidate(q.get());
            fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream is used while a blocking stream is captured");
        }
}
static void unsafe_call(const char* what) {
    for (auto& s : streams)
        if (s->capture &&
            (s->capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
             (s->capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && s->capture->thread == std::this_thread::get_id()))) {
            s->capture->invalid = true;
            fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s during a capture", what);
        }
}
static void no_capture(Context* c, const char* what) {
    for (auto& s : streams)
        if (s->ctx == c && s->capture) {
            s->capture->invalid = true;
            fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s while a stream is captured", what);
        }
}
static void enqueue(const shared_ptr<StreamObj>& s, const string& what, function<void()> run,
                    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL, vector<Dep> deps = {}) {
    if (s->capture) {
        if (s->capture->invalid) silent(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        s->capture->graph->nodes.push_back({what, std::move(run), type});
        if (s.get() != s->capture->origin) s->unjoined = true;
        return;
    }
    not_legacy_during_capture(s);
    if (s->legacy) {
        for (auto& t : streams)
            if (t != s && t->ctx == s->ctx && t->blocking && t->done < t->enq) deps.push_back({t, t->enq});
    } else if (s->blocking && s->ctx->legacy && s->ctx->legacy->done < s->ctx->legacy->enq)
        deps.push_back({s->ctx->legacy, s->ctx->legacy->enq});
    if (TRACE) say("enqueue stream %" PRIu64 " #%" PRIu64 " %s", s->id, s->enq + 1, what.c_str());
    s->q.push_back({std::move(run), std::move(deps), what});
    ++s->enq;
    if (!LATE)
        run_until(s, s->enq);
    else if (LATE > 1)
        for (int n = rng() % 3; n > 0; --n) {
            auto t = streams[rng() % streams.size()];
            if (t->done < t->enq) run_one(t);
        }
    if (s->ctx->sticky) silent((CUresult)s->ctx->sticky);
}
static void synchronise(const shared_ptr<StreamObj>& s) {
    if (s->capture) {
        s->capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream that is captured is waited for");
    }
    not_legacy_during_capture(s);
    if (s->legacy)
        for (size_t i = 0; i < streams.size(); ++i) {
            auto t = streams[i];
            if (t->ctx == s->ctx && t->blocking) run_until(t, t->enq);
        }
    run_until(s, s->enq);
    if (s->ctx->sticky) silent((CUresult)s->ctx->sticky);
}

// ---- modules and launches
struct ModuleObj;
struct FuncObj {
    ModuleObj* mod;
    ptx::Kernel* k;
    u32 max_dynamic = 48 * 1024;
};
struct ModuleObj {
    ptx::Module m;
    Context* ctx;
    map<string, unique_ptr<FuncObj>> funcs;
};
static set<ModuleObj*> modules;
static set<FuncObj*> func_handles;
static thread_local int launching_device = 0;
static u64 run_generation = 1;
static map<string, u64> kernel_counts;
static void check_global(u64 at, u64 n, bool write, ptx::Range& r, const ptx::Ctx& c) {
    Alloc* a = find_alloc(at);
    if (!a || at + n > a->base + a->size || at + n < at) {
        char b[200];
        snprintf(b, sizeof b, "%s of %" PRIu64 " bytes at %#" PRIx64 " outside of every block:", write ? "store" : "load", n, at);
        throw ptx::Fault(700, string(b) + near_text(at) + " in " + c.where());
    }
    if (a->kind == DEVICE && a->device != launching_device && !peers.count({launching_device, a->device}))
        throw ptx::Fault(700, "access to memory of device " + to_string(a->device) + " from device " +
                                  to_string(launching_device) + " without peer access in " + c.where());
    r.lo = a->base;
    r.hi = a->base + a->size;
    r.delta = a->delta;
}
static void run_kernel(FuncObj* f, ptx::Kernel* k, const u32* grid, const u32* block, u32 shared, const vector<u8>& params,
                       int device) {
    static const bool nothing = *setting("SIMCUDA_NULL", "") == '1';
    if (nothing) {
        ++launches;
        return;
    }  // what a launch costs the host
    launching_device = device;
    ptx::Launch l{
        k, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, params.data(), check_global, ++run_generation};
    ++launches;
    if (STATS) ++kernel_counts[k->name];
    ptx::execute(l);
}
static FuncObj* func_of(CUfunction h) {
    auto f = (FuncObj*)h;
    if (!func_handles.count(f)) fail(CUDA_ERROR_INVALID_HANDLE, "no function %p", (void*)h);
    return f;
}
static void launch(CUfunction h, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   CUstream hs, void** kp, void** extra, bool ptds) {
    Context* ctx = need();
    FuncObj* f = func_of(h);
    auto s = resolve(hs, ptds);
    ptx::Kernel* k = f->k;
    if (f->mod->ctx != ctx)
        fail(CUDA_ERROR_INVALID_HANDLE, "kernel %s belongs to device %d, the current one is %d", k->name.c_str(),
             f->mod->ctx->device, ctx->device);
    if (s->ctx != ctx)
        fail(CUDA_ERROR_INVALID_HANDLE, "kernel %s: the stream belongs to device %d, the current one is %d", k->name.c_str(),
             s->ctx->device, ctx->device);
    const u64 n = (u64)bx * by * bz;
    if (!gx || !gy || !gz || !n || gx > 2147483647u || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 || bz > 64 ||
        n > 1024 || n > k->maxntid)
        fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: grid %u %u %u, block %u %u %u (allowed: %u threads)", k->name.c_str(), gx, gy,
             gz, bx, by, bz, k->maxntid);
    if (k->static_shared + shared > max(f->max_dynamic + k->static_shared, 49152u) || shared > f->max_dynamic ||
        k->static_shared + shared > 232448)
        fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: %u bytes of dynamic shared memory, allowed are %u (static: %u)",
             k->name.c_str(), shared, f->max_dynamic, k->static_shared);
    vector<u8> params(k->param_bytes + 16);
    if (kp)
        for (size_t i = 0; i < k->params.size(); ++i) {
            if (!kp[i]) fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: parameter %zu is null", k->name.c_str(), i);
            memcpy(params.data() + k->params[i].at, kp[i], k->params[i].size);
        }
    else if (extra) {
        void* p = nullptr;
        size_t size = 0;
        for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                p = extra[i + 1];
            else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                size = *(size_t*)extra[i + 1];
        }
        if (size < k->param_bytes)
            fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: %zu bytes of parameters, wanted are %u", k->name.c_str(), size,
                 k->param_bytes);
        memcpy(params.data(), p, k->param_bytes);
    } else if (k->param_bytes)
        fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: no parameters", k->name.c_str());
    const int device = ctx->device;
    u32 grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    enqueue(s, "kernel " + k->name, [=] { run_kernel(f, k, grid, block, shared, params, device); });
}
static void copy(const shared_ptr<StreamObj>& s, u64 to, u64 from, u64 n, bool sync) {
    if (!n) return;
    u8* t = host_of(to, n, "copy to memory");
    u8* f = host_of(from, n, "copy from memory");
    const bool to_page = pageable(to), from_page = pageable(from);
    if (s->capture &&
        (to_page || from_page)) { /* real drivers take pageable copies into a graph; the source is read at the launch */
    }
    if (from_page && !to_page && !s->capture) {
        auto staged = make_shared<vector<u8>>(f, f + n);
        enqueue(s, "copy of host bytes to " + to_string(to), [=] { memcpy(t, staged->data(), n); }, CU_GRAPH_NODE_TYPE_MEMCPY);
        if (sync && n > 65536) synchronise(s);
        return;
    }
    enqueue(s, "copy", [=] { memmove(t, f, n); }, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (s->capture) return;
    if (to_page ||
        (sync && !(find_alloc(to) && find_alloc(to)->kind == DEVICE && find_alloc(from) && find_alloc(from)->kind == DEVICE)))
        synchronise(s);
}
static void set_bytes(const shared_ptr<StreamObj>& s, u64 at, unsigned v, int width, u64 count) {
    if (!count) return;
    u8* t = host_of(at, count * width, "memset");
    enqueue(
        s, "memset",
        [=] {
            if (width == 1)
                memset(t, (int)v, count);
            else
                for (u64 i = 0; i < count; ++i) memcpy(t + i * width, &v, width);
        },
        CU_GRAPH_NODE_TYPE_MEMSET);
}

#define API(...)                            \
    {                                       \
        Locked l_;                          \
        if (TRACE > 0) say("%s", __func__); \
        try {                               \
            __VA_ARGS__                     \
        } catch (Err & e) {                 \
            return e.code;                  \
        } catch (ptx::ParseError & e) {     \
            say("%s", e.what());            \
            return CUDA_ERROR_INVALID_PTX;  \
        }                                   \
        return CUDA_SUCCESS;                \
    }
extern "C" {
// init, devices
CUresult cuInit(unsigned) {
    Locked l;
    if (!inited) {
        inited = true;
        for (int i = 0; i < 16; ++i) contexts[i].device = i;
    }
    return DEVICES ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
CUresult cuDriverGetVersion(int* v) {
    *v = VERSION;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* d, int i) API(device_ok(i); *d = i;) CUresult cuDeviceGetCount(int* n)
    API(if (!inited) silent(CUDA_ERROR_NOT_INITIALIZED); *n = DEVICES;) CUresult cuDeviceGetName(char* b, int n, CUdevice d)
        API(device_ok(d); snprintf(b, n, "Simulated GPU %d", d);)
#undef cuDeviceGetUuid
            CUresult cuDeviceGetUuid(CUuuid* u, CUdevice d) API(device_ok(d); memset(u, 0x11 * (d + 1), 16);) CUresult
    cuDeviceGetUuid_v2(CUuuid* u, CUdevice d) API(device_ok(d); memset(u, 0x11 * (d + 1), 16);) CUresult
    cuDeviceGetLuid(char*, unsigned*, CUdevice) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuDeviceTotalMem(size_t* n, CUdevice d) API(device_ok(d); *n = MEMORY;) CUresult
    cuDeviceGetPCIBusId(char* b, int n, CUdevice d) API(device_ok(d); snprintf(b, n, "0000:%02x:00.0", d + 1);) CUresult
    cuDeviceGetByPCIBusId(CUdevice* d, const char* b) {
    *d = (int)strtol(b + 5, 0, 16) - 1;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice d)
    API(device_ok(d); if (!v) silent(CUDA_ERROR_INVALID_VALUE);
        static const map<int, int> values = {{1, 1024},        {2, 1024},   {3, 1024},     {4, 64},       {5, 2147483647},
                                             {6, 65535},       {7, 65535},  {8, 49152},    {9, 65536},    {10, 32},
                                             {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512},     {15, 1},
                                             {19, 1},          {31, 1},     {32, 1},       {36, 2619000}, {37, 5120},
                                             {38, 52428800},   {39, 2048},  {40, 3},       {41, 1},       {78, 1},
                                             {79, 1},          {80, 1},     {81, 233472},  {82, 65536},   {83, 1},
                                             {87, 2},          {89, 1},     {90, 1},       {91, 0},       {95, 1},
                                             {97, 232448},     {98, 1},     {99, 1},       {106, 32},     {107, 1},
                                             {111, 1024},      {115, 1}};
        int x = a; if (x == 16) * v = SMS; else if (x == 33) * v = d + 1; else if (x == 75) * v = CC / 10;
        else if (x == 76) * v = CC % 10; else {
            auto it = values.find(x);
            *v = it == values.end() ? 0 : it->second;
        }) CUresult cuDeviceCanAccessPeer(int* v, CUdevice a, CUdevice b)
        API(device_ok(a); device_ok(b); *v = a != b && atoi(setting("SIMCUDA_PEERS", "1"));) CUresult
    cuDeviceGetP2PAttribute(int* v, CUdevice_P2PAttribute, CUdevice, CUdevice) {
    *v = 0;
    return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned)
    API(Context* me = need(); Context* o = context_of(c);
        if (!peers.insert({me->device, o->device}).second) silent(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);) CUresult
    cuCtxDisablePeerAccess(CUcontext c) API(peers.erase({need()->device, context_of(c)->device});) CUresult
    cuDeviceGetDefaultMemPool(CUmemoryPool* p, CUdevice d) API(device_ok(d); *p = (CUmemoryPool)&contexts[d];) CUresult
    cuDeviceGetMemPool(CUmemoryPool* p, CUdevice d) API(device_ok(d); *p = (CUmemoryPool)&contexts[d];) CUresult
    cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
    return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* v) {
    *(u64*)v = 0;
    return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
// contexts
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d)
    API(device_ok(d); ++contexts[d].retained; *c = (CUcontext)&contexts[d];) CUresult cuDevicePrimaryCtxRelease(CUdevice d)
        API(device_ok(d); --contexts[d].retained;) CUresult cuDevicePrimaryCtxReset(CUdevice d) API(device_ok(d);) CUresult
    cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned f) API(device_ok(d); contexts[d].flags = f;) CUresult
    cuDevicePrimaryCtxGetState(CUdevice d, unsigned* f, int* active)
        API(device_ok(d); if (f) * f = contexts[d].flags; if (active) * active = contexts[d].retained > 0;) CUresult
    cuCtxGetCurrent(CUcontext* c) API(if (!inited) silent(CUDA_ERROR_NOT_INITIALIZED); *c = (CUcontext)current();) CUresult
    cuCtxSetCurrent(CUcontext c) API(if (!inited) silent(CUDA_ERROR_NOT_INITIALIZED); Context* x = c ? context_of(c) : nullptr;
                                     if (!current_.empty()) current_.pop_back(); if (x) current_.push_back(x);) CUresult
    cuCtxPushCurrent(CUcontext c) API(current_.push_back(context_of(c));) CUresult cuCtxPopCurrent(CUcontext* c)
        API(if (current_.empty()) silent(CUDA_ERROR_INVALID_CONTEXT); if (c) * c = (CUcontext)current();
            current_.pop_back();) CUresult cuCtxGetDevice(CUdevice* d)
            API(Context* c = current(); if (!c) silent(CUDA_ERROR_INVALID_CONTEXT); *d = c->device;) CUresult
    cuCtxGetFlags(unsigned* f) API(*f = need()->flags;) CUresult cuCtxSetFlags(unsigned f) API(need()->flags = f;) CUresult
    cuCtxGetId(CUcontext c, unsigned long long* id) API(*id = (c ? context_of(c) : need())->device + 1;) CUresult
    cuCtxGetApiVersion(CUcontext, unsigned* v) {
    *v = 3020;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetLimit(size_t* v, CUlimit l) API(*v = l < 16 ? need()->limits[l] : 0;) CUresult cuCtxSetLimit(CUlimit l, size_t v)
    API(if (l < 16) need()->limits[l] = v;) CUresult cuCtxGetCacheConfig(CUfunc_cache* c) {
    *c = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuCtxGetStreamPriorityRange(int* lo, int* hi) {
    if (lo) *lo = 0;
    if (hi) *hi = -5;
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize()
    API(Context* c = need(); no_capture(c, "the device is waited for"); run_all(c); if (c->sticky) silent((CUresult)c->sticky);)
    // memory
    CUresult cuMemAlloc(CUdeviceptr* p, size_t n)
        API(Context* c = need(); unsafe_call("cuMemAlloc"); if (!n || !p) silent(CUDA_ERROR_INVALID_VALUE);
            *p = allocate(n, c->device, DEVICE);) CUresult cuMemAllocManaged(CUdeviceptr* p, size_t n, unsigned)
            API(Context* c = need(); unsafe_call("cuMemAllocManaged"); if (!n) silent(CUDA_ERROR_INVALID_VALUE);
                *p = allocate(n, c->device, HOST); allocs[*p].kind = MANAGED;) CUresult cuMemFree(CUdeviceptr p)
                API(Context* c = need(); if (!p) return CUDA_SUCCESS; unsafe_call("cuMemFree"); run_all(nullptr);
                    auto it = allocs.find(p); if (it != allocs.end() && it->second.kind == MANAGED && !it->second.delta) {
                        allocs.erase(it);
                        return CUDA_SUCCESS;
                    }(void)c;
                    release(p, false);) static CUresult alloc_async(CUdeviceptr* p, size_t n, CUstream h, bool t)
                    API(auto s = resolve(h, t); if (s->capture) fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemAllocAsync in a capture");
                        *p = allocate(n, s->ctx->device, DEVICE);) static CUresult
    free_async(CUdeviceptr p, CUstream h, bool t)
        API(auto s = resolve(h, t); if (!allocs.count(p)) fail(CUDA_ERROR_INVALID_VALUE, "cuMemFreeAsync of %#llx", p); enqueue(
                s, "free", [=] { release(p, false); }, CU_GRAPH_NODE_TYPE_MEM_FREE);) CUresult
    cuMemAllocAsync(CUdeviceptr* p, size_t n, CUstream s) {
    return alloc_async(p, n, s, false);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* p, size_t n, CUstream s) { return alloc_async(p, n, s, true); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* p, size_t n, CUmemoryPool, CUstream s) { return alloc_async(p, n, s, false); }
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { return free_async(p, s, false); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream s) { return free_async(p, s, true); }
CUresult cuMemGetInfo(size_t* f, size_t* t) API(Context* c = need(); *t = MEMORY; *f = MEMORY - used[c->device];) CUresult
    cuMemHostAlloc(void** p, size_t n, unsigned) API(Context* c = need(); unsafe_call("cuMemHostAlloc"); if (!n) {
        *p = nullptr;
        return CUDA_SUCCESS;
    }* p = (void*)allocate(n, c->device, HOST);) CUresult cuMemAllocHost(void** p, size_t n) {
    return cuMemHostAlloc(p, n, 0);
}
CUresult cuMemFreeHost(void* p)
    API(need(); if (!p) return CUDA_SUCCESS; unsafe_call("cuMemFreeHost"); run_all(nullptr); release((u64)p, true);) CUresult
    cuMemHostGetDevicePointer(CUdeviceptr* d, void* p, unsigned) API(*d = (CUdeviceptr)p;) CUresult
    cuMemHostGetFlags(unsigned* f, void*) {
    *f = 3;
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* p, size_t n, unsigned)
    API(need(); allocs[(u64)p] = {(u64)p, n, need()->device, REGISTERED, 0, false, ++alloc_count};) CUresult
    cuMemHostUnregister(void* p) API(run_all(nullptr); allocs.erase((u64)p);) CUresult
    cuMemGetAddressRange(CUdeviceptr* b, size_t* n, CUdeviceptr p)
        API(Alloc* a = find_alloc(p); if (!a) silent(CUDA_ERROR_NOT_FOUND); if (b) * b = a->base;
            if (n) * n = a->size;) static CUresult pointer_attribute(void* v, CUpointer_attribute k, CUdeviceptr p) {
    Alloc* a = find_alloc(p);
    if (!a) {
        switch (k) {
            case CU_POINTER_ATTRIBUTE_CONTEXT:
            case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(void**)v = nullptr; break;
            case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)v = 0; break;
            case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)v = -2; break;
            default: *(u64*)v = 0;
        }
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (k) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: *(void**)v = &contexts[a->device]; break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned*)v = a->kind == HOST || a->kind == REGISTERED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(u64*)v = p; break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(u64*)v = a->delta ? 0 : p; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)v = a->kind == MANAGED; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)v = a->device; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(u64*)v = a->base; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(u64*)v = a->size; break;
        case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)v = 1; break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(u64*)v = a->number; break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(void**)v = nullptr; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* v, CUpointer_attribute k, CUdeviceptr p) {
    Locked l;
    return pointer_attribute(v, k, p);
}
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute* k, void** v, CUdeviceptr p) {
    Locked l;
    for (unsigned i = 0; i < n; ++i) pointer_attribute(v[i], k[i], p);
    return CUDA_SUCCESS;
}
// copies: NAME(arguments), synchronous on the null stream; ...Async on a stream; _ptds/_ptsz with the null stream of the thread
#define COPIES(NAME, TO, FROM, CAST_TO, CAST_FROM)                                                                          \
    CUresult NAME(TO to, FROM from, size_t n) API(unsafe_call(#NAME); copy(resolve(nullptr), (u64)to, (u64)from, n, true);) \
        CUresult NAME##_ptds(TO to, FROM from, size_t n)                                                                    \
            API(unsafe_call(#NAME); copy(resolve(nullptr, true), (u64)to, (u64)from, n, true);)
#define COPIES_ASYNC(NAME, TO, FROM)                                                                           \
    CUresult NAME(TO to, FROM from, size_t n, CUstream s) API(copy(resolve(s), (u64)to, (u64)from, n, false);) \
        CUresult NAME##_ptsz(TO to, FROM from, size_t n, CUstream s) API(copy(resolve(s, true), (u64)to, (u64)from, n, false);)
COPIES(cuMemcpy, CUdeviceptr, CUdeviceptr, , )
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemcpyDtoD
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
COPIES(cuMemcpyHtoD_v2, CUdeviceptr, const void*, , )
COPIES(cuMemcpyDtoH_v2, void*, CUdeviceptr, , )
COPIES(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, , )
COPIES_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
COPIES_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*)
COPIES_ASYNC(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr)
COPIES_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr)
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n)
    API(copy(resolve(nullptr), to, from, n, true);) CUresult
    cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n)
        API(copy(resolve(nullptr, true), to, from, n, true);) CUresult
    cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n, CUstream s)
        API(copy(resolve(s), to, from, n, false);) CUresult
    cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t n, CUstream s)
        API(copy(resolve(s, true), to, from, n, false);) static void copy2d(const CUDA_MEMCPY2D* c,
                                                                            const shared_ptr<StreamObj>& s) {
    auto where = [](CUmemorytype t, const void* h, CUdeviceptr d) { return t == CU_MEMORYTYPE_HOST ? (u64)h : (u64)d; };
    u64 to = where(c->dstMemoryType, c->dstHost, c->dstDevice) + c->dstY * c->dstPitch + c->dstXInBytes,
        from = where(c->srcMemoryType, c->srcHost, c->srcDevice) + c->srcY * c->srcPitch + c->srcXInBytes;
    for (size_t y = 0; y < c->Height; ++y) copy(s, to + y * c->dstPitch, from + y * c->srcPitch, c->WidthInBytes, false);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream s) API(copy2d(c, resolve(s));) CUresult
    cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* c, CUstream s) API(copy2d(c, resolve(s, true));) CUresult
    cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* c) API(copy2d(c, resolve(nullptr)); synchronise(resolve(nullptr));)
#define SETS(NAME, W, V) CUresult NAME(CUdeviceptr p, V v, size_t n) API(set_bytes(resolve(nullptr), p, v, W, n);)
#define SETS_ASYNC(NAME, W, V)                                                                      \
    CUresult NAME(CUdeviceptr p, V v, size_t n, CUstream s) API(set_bytes(resolve(s), p, v, W, n);) \
        CUresult NAME##_ptsz(CUdeviceptr p, V v, size_t n, CUstream s) API(set_bytes(resolve(s, true), p, v, W, n);)
#undef cuMemsetD8
#undef cuMemsetD16
#undef cuMemsetD32
        SETS(cuMemsetD8_v2, 1, unsigned char) SETS(cuMemsetD16_v2, 2, unsigned short) SETS(cuMemsetD32_v2, 4, unsigned) CUresult
    cuMemsetD8_v2_ptds(CUdeviceptr p, unsigned char v, size_t n) API(set_bytes(resolve(nullptr, true), p, v, 1, n);)
        SETS_ASYNC(cuMemsetD8Async, 1, unsigned char) SETS_ASYNC(cuMemsetD16Async, 2, unsigned short)
            SETS_ASYNC(cuMemsetD32Async, 4, unsigned)
    // streams
    static CUresult stream_make(CUstream* h, unsigned flags, int priority)
        API(Context* c = need(); auto s = make_stream(c, !(flags & CU_STREAM_NON_BLOCKING)); s->flags = flags;
            s->priority = priority; stream_handles.insert(s.get()); *h = (CUstream)s.get();) CUresult
    cuStreamCreate(CUstream* h, unsigned f) {
    return stream_make(h, f, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* h, unsigned f, int p) { return stream_make(h, f, p); }
CUresult cuStreamDestroy(CUstream h) API(auto s = resolve(h); if (s->capture) s->capture->invalid = true; s->alive = false;
                                         s->capture = nullptr; stream_handles.erase(s.get()); if (s->done == s->enq) {
                                             for (size_t i = 0; i < streams.size(); ++i)
                                                 if (streams[i] == s) {
                                                     streams.erase(streams.begin() + i);
                                                     break;
                                                 }
                                         }) static CUresult stream_sync(CUstream h, bool t)
    API(synchronise(resolve(h, t));) static CUresult stream_query(CUstream h, bool t) API(
        auto s = resolve(h, t); if (s->capture) {
            s->capture->invalid = true;
            silent(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        } not_legacy_during_capture(s);
        if (s->done < s->enq) {
            if (++s->polls < POLLS) silent(CUDA_ERROR_NOT_READY);
            s->polls = 0;
            run_until(s, s->enq);
        }) static void event_wait(const shared_ptr<StreamObj>& s, CUevent h) {
    auto e = (EventObj*)h;
    if (!event_handles.count(e)) fail(CUDA_ERROR_INVALID_HANDLE, "no event %p", (void*)h);
    if (e->captured) {
        if (s->capture == e->captured) {
            if (e->captured_on != s.get()) e->captured_on->unjoined = false;
            return;
        }
        if (s->capture) {
            s->capture->invalid = e->captured->invalid = true;
            fail(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures meet");
        }
        if (s->legacy) fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream waits for a captured event");
        s->capture = e->captured;
        s->capture->joined.insert(s.get());
        s->unjoined = true;
        if (e->captured_on != s.get()) e->captured_on->unjoined = false;
        return;
    }
    if (s->capture) {
        s->capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a captured stream waits for an event from outside of the capture");
    }
    if (!e->recorded) return;
    enqueue(s, "wait", [] {}, CU_GRAPH_NODE_TYPE_EMPTY, {{e->stream, e->index}});
}
static CUresult stream_wait(CUstream h, CUevent e, bool t) API(event_wait(resolve(h, t), e);) static CUresult
    event_record(CUevent h, CUstream hs, bool t)
        API(auto e = (EventObj*)h; if (!event_handles.count(e)) fail(CUDA_ERROR_INVALID_HANDLE, "no event %p", (void*)h);
            auto s = resolve(hs, t);
            if (s->ctx != e->ctx) fail(CUDA_ERROR_INVALID_HANDLE, "an event of device %d is recorded on a stream of device %d",
                                       e->ctx->device, s->ctx->device);
            if (s->capture) {
                if (s->capture->invalid) silent(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                e->captured = s->capture;
                e->captured_on = s.get();
                return CUDA_SUCCESS;
            } e->captured = nullptr;
            e->recorded = true; e->polls = 0; struct timespec ts; clock_gettime(CLOCK_MONOTONIC, &ts);
            e->time = ts.tv_sec * 1e3 + ts.tv_nsec * 1e-6; enqueue(
                s, "record", [] {}, CU_GRAPH_NODE_TYPE_EMPTY);
            e->stream = s; e->index = s->enq;) CUresult cuStreamSynchronize(CUstream s) {
    return stream_sync(s, false);
}
CUresult cuStreamSynchronize_ptsz(CUstream s) { return stream_sync(s, true); }
CUresult cuStreamQuery(CUstream s) { return stream_query(s, false); }
CUresult cuStreamQuery_ptsz(CUstream s) { return stream_query(s, true); }
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) { return stream_wait(s, e, false); }
CUresult cuStreamWaitEvent_ptsz(CUstream s, CUevent e, unsigned) { return stream_wait(s, e, true); }
CUresult cuStreamGetFlags(CUstream h, unsigned* f) API(*f = resolve(h)->flags;) CUresult cuStreamGetPriority(CUstream h, int* p)
    API(*p = resolve(h)->priority;) CUresult cuStreamGetId(CUstream h, unsigned long long* id) API(*id = resolve(h)->id;) CUresult
    cuStreamGetCtx(CUstream h, CUcontext* c) API(*c = (CUcontext)resolve(h)->ctx;) CUresult
    cuStreamGetDevice(CUstream h, CUdevice* d) API(*d = resolve(h)->ctx->device;) static CUresult
    host_func(CUstream h, CUhostFn f, void* data, bool t) API(enqueue(
                                                                  resolve(h, t), "host function",
                                                                  [=] {
                                                                      Unlocked u;
                                                                      f(data);
                                                                  },
                                                                  CU_GRAPH_NODE_TYPE_HOST);) CUresult
    cuLaunchHostFunc(CUstream h, CUhostFn f, void* d) {
    return host_func(h, f, d, false);
}
CUresult cuLaunchHostFunc_ptsz(CUstream h, CUhostFn f, void* d) { return host_func(h, f, d, true); }
CUresult cuStreamAddCallback(CUstream h, CUstreamCallback f, void* d, unsigned) API(enqueue(
                                                                                        resolve(h), "callback",
                                                                                        [=] {
                                                                                            Unlocked u;
                                                                                            f(h, CUDA_SUCCESS, d);
                                                                                        },
                                                                                        CU_GRAPH_NODE_TYPE_HOST);)
    // capture, graphs
    static CUresult begin_capture(CUstream h, CUstreamCaptureMode m, bool t)
        API(auto s = resolve(h, t);
            if (s->legacy) fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
            if (s->capture) silent(CUDA_ERROR_ILLEGAL_STATE); auto c = make_shared<Capture>(); c->mode = m; c->origin = s.get();
            c->thread = std::this_thread::get_id(); c->id = ++capture_ids; c->joined.insert(s.get()); s->capture = c;
            s->unjoined = false;) static CUresult end_capture(CUstream h, CUgraph* g, bool t)
            API(auto s = resolve(h, t); *g = nullptr; auto c = s->capture; if (!c) silent(CUDA_ERROR_ILLEGAL_STATE);
                if (c->origin != s.get()) fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream");
                if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != std::this_thread::get_id())
                    fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread ends the capture");
                bool unjoined = false; for (auto* q : c->joined) {
                    if (q != s.get() && q->unjoined) unjoined = true;
                    q->capture = nullptr;
                    q->unjoined = false;
                } if (c->invalid) fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
                if (unjoined) fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was not joined");
                *g = (CUgraph) new shared_ptr<GraphObj>(c->graph);) static CUresult
    is_capturing(CUstream h, CUstreamCaptureStatus* st, bool t)
        API(auto s = resolve(h, t); if (s->legacy) if (implicit_capture(s->ctx)) silent(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
            *st = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
                  : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;) CUresult
    cuStreamBeginCapture(CUstream h, CUstreamCaptureMode m) {
    return begin_capture(h, m, false);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream h, CUstreamCaptureMode m) { return begin_capture(h, m, true); }
CUresult cuStreamEndCapture(CUstream h, CUgraph* g) { return end_capture(h, g, false); }
CUresult cuStreamEndCapture_ptsz(CUstream h, CUgraph* g) { return end_capture(h, g, true); }
CUresult cuStreamIsCapturing(CUstream h, CUstreamCaptureStatus* s) { return is_capturing(h, s, false); }
CUresult cuStreamIsCapturing_ptsz(CUstream h, CUstreamCaptureStatus* s) { return is_capturing(h, s, true); }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* m) {
    *m = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream h, CUstreamCaptureStatus* st, cuuint64_t* id, CUgraph* g, const CUgraphNode** d,
                                   size_t* n)
    API(auto s = resolve(h); *st = !s->capture ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (id) * id = s->capture ? s->capture->id : 0; if (g) * g = nullptr; if (d) * d = nullptr;
        if (n) * n = 0;) struct ExecObj {
    vector<Node> nodes;
};
CUresult cuGraphDestroy(CUgraph g) API(delete (shared_ptr<GraphObj>*)g;) CUresult
    cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, unsigned long long)
        API(*e = (CUgraphExec) new ExecObj{(*(shared_ptr<GraphObj>*)g)->nodes};) CUresult
    cuGraphInstantiate_v2(CUgraphExec* e, CUgraph g, CUgraphNode*, char*, size_t) {
    return cuGraphInstantiateWithFlags(e, g, 0);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS*) {
    return cuGraphInstantiateWithFlags(e, g, 0);
}
CUresult cuGraphExecDestroy(CUgraphExec e) API(run_all(nullptr); delete (ExecObj*)e;) static CUresult
    graph_launch(CUgraphExec e, CUstream h, bool t) API(auto s = resolve(h, t); auto* x = (ExecObj*)e; enqueue(
                                                            s, "graph",
                                                            [x, s] {
                                                                for (auto& n : x->nodes) n.run();
                                                            },
                                                            CU_GRAPH_NODE_TYPE_GRAPH);) CUresult
    cuGraphLaunch(CUgraphExec e, CUstream h) {
    return graph_launch(e, h, false);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec e, CUstream h) { return graph_launch(e, h, true); }
CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult cuGraphUpload_ptsz(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode* n, size_t* c)
    API(auto& x = **(shared_ptr<GraphObj>*)g; if (!n) * c = x.nodes.size();
        else for (size_t i = 0; i < *c && i < x.nodes.size(); ++i) n[i] = (CUgraphNode)&x.nodes[i];) CUresult
    cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType* t) API(*t = ((Node*)n)->type;) CUresult
    cuGraphDebugDotPrint(CUgraph, const char*, unsigned) {
    return CUDA_SUCCESS;
}
// events
CUresult cuEventCreate(CUevent* h, unsigned f)
    API(Context* c = need(); auto e = new EventObj{c, f}; event_handles.insert(e); *h = (CUevent)e;) CUresult
    cuEventDestroy(CUevent h)
        API(auto e = (EventObj*)h; if (!event_handles.erase(e)) fail(CUDA_ERROR_INVALID_HANDLE, "destroy of no event");
            delete e;) CUresult cuEventRecord(CUevent e, CUstream s) {
    return event_record(e, s, false);
}
CUresult cuEventRecord_ptsz(CUevent e, CUstream s) { return event_record(e, s, true); }
CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned) { return event_record(e, s, false); }
CUresult cuEventRecordWithFlags_ptsz(CUevent e, CUstream s, unsigned) { return event_record(e, s, true); }
CUresult cuEventQuery(CUevent h) API(
    auto e = (EventObj*)h; if (!event_handles.count(e)) fail(CUDA_ERROR_INVALID_HANDLE, "no event"); if (e->captured) {
        e->captured->invalid = true;
        fail(CUDA_ERROR_CAPTURED_EVENT, "query of a captured event");
    } if (e->recorded && e->stream->done < e->index) {
        if (++e->polls < POLLS) silent(CUDA_ERROR_NOT_READY);
        run_until(e->stream, e->index);
    } if (e->ctx->sticky) silent((CUresult)e->ctx->sticky);) CUresult cuEventSynchronize(CUevent h)
    API(auto e = (EventObj*)h; if (!event_handles.count(e)) fail(CUDA_ERROR_INVALID_HANDLE, "no event"); if (e->captured) {
        e->captured->invalid = true;
        fail(CUDA_ERROR_CAPTURED_EVENT, "wait for a captured event");
    } if (e->recorded) run_until(e->stream, e->index);
        if (e->ctx->sticky) silent((CUresult)e->ctx->sticky);)
#undef cuEventElapsedTime
        CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b)
            API(auto x = (EventObj*)a; auto y = (EventObj*)b;
                if ((x->flags | y->flags) & CU_EVENT_DISABLE_TIMING) silent(CUDA_ERROR_INVALID_HANDLE);
                if (!x->recorded || !y->recorded) silent(CUDA_ERROR_INVALID_HANDLE);
                if (x->stream->done < x->index || y->stream->done < y->index) silent(CUDA_ERROR_NOT_READY);
                *ms = (float)(y->time - x->time);) CUresult cuEventElapsedTime_v2(float* ms, CUevent a, CUevent b) {
    return cuEventElapsedTime(ms, a, b);
}
// modules
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* m) {
    *m = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* h, const void* image, unsigned, CUjit_option*, void**) API(
    Context* c = need(); unsafe_call("cuModuleLoadData"); const char* text = (const char*)image;
    if (text[0] == 0x7f || (unsigned char)text[0] == 0x50 || (unsigned char)text[0] == 0xb1)
        fail(CUDA_ERROR_INVALID_IMAGE,
             "a module of machine code: this stand-in takes PTX alone (CUPY_COMPILE_WITH_PTX=1, CUPY_ACCELERATORS=)");
    auto m = make_unique<ModuleObj>(); m->ctx = c; string s = text; {
        int major = 0, minor = 0;
        size_t at = s.find(".version ");
        if (at != string::npos && sscanf(s.c_str() + at, ".version %d.%d", &major, &minor) == 2 &&
            major > (getenv("SIMCUDA_PTX") ? atoi(getenv("SIMCUDA_PTX")) : VERSION / 1000 - 4))
            fail((CUresult)222, "PTX %d.%d is newer than the driver (CUDA %d.%d)", major, minor, VERSION / 1000,
                 VERSION % 1000 / 10);
    } try { ptx::Parser(m->m).parse(s); } catch (ptx::ParseError & e) {
        if (const char* d = getenv("SIMCUDA_DUMP")) {
            FILE* f = fopen(d, "w");
            fwrite(s.data(), 1, s.size(), f);
            fclose(f);
        }
        throw;
    } for (auto& [n, k] : m->m.kernels) {
        auto& f = m->funcs[n];
        f.reset(new FuncObj{m.get(), k.get()});
        f->max_dynamic = k->static_shared > 49152 ? 0 : 49152 - k->static_shared;
        func_handles.insert(f.get());
    } for (auto& [n, g] : m->m.globals) {
        u64 b = (u64)g.mem.get();
        allocs[b] = {b, g.size, c->device, GLOBALS, 0, false, ++alloc_count};
        ++memory_generation;
    } modules.insert(m.get());
    *h = (CUmodule)m.release();) CUresult cuModuleLoadData(CUmodule* h, const void* image) {
    return cuModuleLoadDataEx(h, image, 0, nullptr, nullptr);
}
CUresult cuModuleUnload(CUmodule h)
    API(auto m = (ModuleObj*)h; if (!modules.erase(m)) fail(CUDA_ERROR_INVALID_HANDLE, "no module");
        unsafe_call("cuModuleUnload"); run_all(m->ctx); for (auto& [n, f] : m->funcs) func_handles.erase(f.get());
        for (auto& [n, g] : m->m.globals) allocs.erase((u64)g.mem.get());
        /* captured graphs may still name it */) CUresult cuModuleGetFunction(CUfunction* h, CUmodule mh, const char* n)
        API(auto m = (ModuleObj*)mh; if (!modules.count(m)) fail(CUDA_ERROR_INVALID_HANDLE, "no module");
            auto it = m->funcs.find(n); if (it == m->funcs.end()) fail(CUDA_ERROR_NOT_FOUND, "no kernel %s", n);
            *h = (CUfunction)it->second.get();) CUresult
    cuModuleGetGlobal(CUdeviceptr* p, size_t* n, CUmodule mh, const char* name)
        API(auto m = (ModuleObj*)mh; auto it = m->m.globals.find(name);
            if (it == m->m.globals.end()) silent(CUDA_ERROR_NOT_FOUND); if (p) * p = (CUdeviceptr)it->second.mem.get();
            if (n) * n = it->second.size;) CUresult cuFuncGetModule(CUmodule* m, CUfunction f)
            API(*m = (CUmodule)func_of(f)->mod;) CUresult
    cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction h) API(FuncObj* f = func_of(h); switch (a) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = f->k->maxntid; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *v = f->k->static_shared; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *v = 16; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *v = CC; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *v = f->max_dynamic; break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *v = -1; break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = f->k->local_bytes; break;
        default: *v = 0;
    }) CUresult cuFuncSetAttribute(CUfunction h, CUfunction_attribute a,
                                   int v) API(FuncObj* f = func_of(h); if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (v < 0 || (u64)v + f->k->static_shared > 232448)
            fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: %d bytes of dynamic shared memory are asked for", f->k->name.c_str(), v);
        f->max_dynamic = v;
    }) CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned sh,
                        CUstream s, void** kp, void** ex) API(launch(f, gx, gy, gz, bx, by, bz, sh, s, kp, ex, false);) CUresult
    cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned sh,
                        CUstream s, void** kp, void** ex) API(launch(f, gx, gy, gz, bx, by, bz, sh, s, kp, ex, true);) CUresult
    cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** kp, void** ex)
        API(launch(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
                   c->hStream, kp, ex, false);) CUresult
    cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction h, int block, size_t)
        API(func_of(h); *n = block ? 2048 / block : 1;) CUresult
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, CUfunction h, int block, size_t, unsigned)
        API(func_of(h); *n = block ? 2048 / block : 1;) CUresult
    cuOccupancyMaxPotentialBlockSize(int* g, int* b, CUfunction h, CUoccupancyB2DSize, size_t, int limit)
        API(FuncObj* f = func_of(h); *b = min<int>(f->k->maxntid, limit ? limit : 1024); *g = 2 * SMS;) CUresult
    cuProfilerStart() {
    return CUDA_SUCCESS;
}
CUresult cuProfilerStop() { return CUDA_SUCCESS; }
static const map<int, pair<const char*, const char*>> error_names = {
    {0, {"CUDA_SUCCESS", "no error"}},
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
    {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {401, {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {704, {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"}},
    {716, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
    {900, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {901, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
    {904, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
    {905, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"}},
    {906, {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"}},
    {907, {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"}}};
CUresult cuGetErrorName(CUresult e, const char** s) {
    auto it = error_names.find(e);
    *s = it == error_names.end() ? "CUDA_ERROR_UNKNOWN" : it->second.first;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult e, const char** s) {
    auto it = error_names.find(e);
    *s = it == error_names.end() ? "unknown error" : it->second.second;
    return CUDA_SUCCESS;
}
CUresult cuGetExportTable(const void** t, const CUuuid* id);
#undef cuGetProcAddress
CUresult cuGetProcAddress_v2(const char* n, void** f, int v, cuuint64_t flags, CUdriverProcAddressQueryResult* st);
CUresult cuGetProcAddress(const char* n, void** f, int v, cuuint64_t flags) {
    return cuGetProcAddress_v2(n, f, v, flags, nullptr);
}
// what the tests ask: launches so far, bytes in use, and the most there were
__attribute__((visibility("default"))) u64 simcuda_launches() { return launches; }
__attribute__((visibility("default"))) u64 simcuda_used(int d) { return used[d]; }
__attribute__((visibility("default"))) u64 simcuda_pending() {
    Locked l;
    u64 n = 0;
    for (auto& s : streams) n += s->enq - s->done;
    return n;
}
__attribute__((visibility("default"))) u64 simcuda_handles(int k) {
    Locked l;
    return k == 0 ? stream_handles.size() : k == 1 ? event_handles.size() : allocs.size();
}
}

// ---- how the CUDA runtime finds functions
static const char* stub_names[1200];
static int stub_count;
template <int N>
static int stub() {
    say("%s is not simulated", stub_names[N]);
    return 801;
}
template <int... I>
static void* pick(int n, integer_sequence<int, I...>) {
    static void* const t[] = {(void*)stub<I>...};
    return t[n];
}
struct Entry {
    const char* name;
    int version;
    const char* symbol;
};
static const Entry versions[] = {// those of which an older form is not simulated, or has another name
                                 {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
                                 {"cuStreamBeginCapture", 0, "?"},
                                 {"cuStreamGetCaptureInfo", 12030, "?"},
                                 {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
                                 {"cuStreamGetCaptureInfo", 0, "?"},
                                 {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
                                 {"cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"},
                                 {"cuGraphInstantiate", 0, "?"},
                                 {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
                                 {"cuGetProcAddress", 0, "cuGetProcAddress"},
                                 {"cuCtxCreate", 0, "?"},
                                 {"cuMemAdvise", 0, "?"},
                                 {"cuMemPrefetchAsync", 0, "?"}};
CUresult cuGetProcAddress_v2(const char* n, void** f, int v, cuuint64_t flags, CUdriverProcAddressQueryResult* st) {
    Locked l;
    static void* self = nullptr;
    if (!self) {
        Dl_info d;
        dladdr((void*)cuInit, &d);
        self = dlopen(d.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    if (st) *st = CU_GET_PROC_ADDRESS_SUCCESS;
    string name = n, symbol;
    void* p = nullptr;
    if (name.empty()) {
        *f = (void*)cuGetProcAddress_v2;
        return CUDA_SUCCESS;
    }
    for (auto& e : versions)
        if (name == e.name && v >= e.version) {
            symbol = e.symbol;
            break;
        }
    auto look = [&](const string& s) { return dlsym(self, s.c_str()); };
    if (symbol.empty()) {
        if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
            for (auto* x : {"_v2_ptsz", "_ptsz", "_v2_ptds", "_ptds"})
                if ((p = look(name + x))) break;
        if (!p)
            for (auto* x : {"_v2", ""})
                if ((p = look(name + x))) break;
    } else if (symbol != "?") {
        if (flags & 2) p = look(symbol + "_ptsz");
        if (!p) p = look(symbol);
    }
    if (!p) {
        stub_names[stub_count] = strdup((name + " (version " + to_string(v) + ")").c_str());
        p = pick(stub_count++, make_integer_sequence<int, 1200>());
    }
    *f = p;
    return CUDA_SUCCESS;
}
CUresult cuGetExportTable(const void**, const CUuuid*) { return CUDA_ERROR_INVALID_VALUE; }
#include "cudart.hpp"
__attribute__((destructor)) static void finish() {
    if (STATS && launches) {
        u64 n = 0;
        for (auto& s : streams) n += s->enq - s->done;
        fprintf(stderr,
                "simcuda: %" PRIu64 " launches of %zu kernels; most bytes: %" PRIu64 ", %" PRIu64
                "; blocks left: %zu; streams left: %zu; events left: %zu; operations that never ran: %" PRIu64 "\n",
                launches, kernel_counts.size(), peak[0], peak[1], allocs.size(), stream_handles.size(), event_handles.size(), n);
    }
}
