// The driver's state, which the subjects share: devices, allocations, streams, events, captures, modules.
// CUDA's numbers and structures are declared here as far as CuPy uses them, so that no toolkit is needed, and one library serves
// the wheels for CUDA 12 and 13.
#pragma once
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "launch.h"

enum Status : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INSUFFICIENT_DRIVER = 35,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

// What is pretended: environment variables SIMCUDA_….
struct Settings {
    int devices, multiprocessors, compute_capability, version, newest_ptx;
    u64 memory;   // bytes of each device
    u32 late;     // 0: work is done at once; 1: as late as CUDA allows; more: in a random order with this seed
    int polls;    // queries of an event or stream that say "not ready" before it gets ready
    bool peers;   // devices can access each other's memory
    bool null;    // kernels are launched and not executed: what a call costs the host
    bool sticky;  // a fault of a kernel is an error of its device, as on a GPU; else the process aborts
    bool trace, statistics, quiet;
    const char* dump;  // where PTX is written that is not understood
};
extern const Settings& settings;

// Prints a line to stderr.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

struct Error {
    Status status;
};
// The caller's mistake: says what is wrong.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(Status status, const char* format, ...);
// An error that correct programs meet.
[[noreturn]] void refuse(Status status);

// Each call holds the one lock of the driver.
class Locked {
public:
    Locked();
    ~Locked();
};
// Lets go of it while a function of the host runs, which may call the driver in another thread.
class Unlocked {
public:
    Unlocked();
    ~Unlocked();

private:
    int depth;
};

struct Stream;
struct Capture;
typedef std::shared_ptr<Stream> StreamPointer;

// A device, and its primary context.
struct Device {
    int number = 0;
    int sticky = 0;  // the status of all further calls, after a fault
    StreamPointer legacy;
    u64 limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128};
};
Device& device(int number);  // refuses one that there is not
Device& device_of_context(const void* context);
Device& current_device();  // of this thread; fails without one, and while a fault sticks
bool peer_access(int from, int to);
void begin_runtime();  // a call of the runtime gives its thread a device

enum class Kind { Device, Managed, Pinned, Registered, Variable };

struct Allocation {
    Buffer buffer;
    int device;
    Kind kind;
    u64 number;

    bool on_host() const { return kind == Kind::Pinned || kind == Kind::Registered; }
};

// What a device's memory is made of. Memory of devices is a mapping without rights, so that the host that reads it is stopped;
// kernels and copies go through a second mapping of the same pages. No address is used twice, so that use after free is always
// seen.
class Allocations {
public:
    u64 allocate(u64 size, int device, Kind kind);
    void add(u64 address, u64 size, int device, Kind kind);  // memory that exists
    void release(u64 address, bool pinned);
    void forget(u64 address);  // what was added
    Allocation* find(u64 address);
    bool is_device_address(u64 address) const { return region && address >= region && address < region + REGION; }
    // The bytes behind an address; one that is no device's is the host's. Fails beyond the end of an allocation.
    u8* bytes(u64 address, u64 size, const char* what);
    std::string near(u64 address);
    std::size_t count() const { return live.size(); }
    u64 used[16] = {}, most[16] = {};

private:
    static constexpr u64 REGION = u64{1} << 40;

    void reserve();

    std::map<u64, Allocation> live, freed;
    u64 region = 0, next = 4096, made = 0;
    s64 to_data = 0;  // from the first mapping to the second
    int file = -1;
};
extern Allocations& allocations;

// A moment of a stream: after so many of its operations.
struct Point {
    StreamPointer stream;
    u64 index;
};

struct Work {
    std::string what;
    std::function<void()> run;
    std::vector<Point> after;
};

enum class NodeType : int { Kernel = 0, Copy = 1, Set = 2, Host = 3, Graph = 4, Empty = 5, Free = 11 };

struct Stream : std::enable_shared_from_this<Stream> {
    Device* device;
    bool blocking = true;  // ordered with the legacy stream
    bool legacy = false, alive = true;
    int priority = 0;
    unsigned flags = 0;
    u64 number;
    std::deque<Work> queue;
    u64 done = 0, enqueued = 0;
    int polls = 0;
    std::shared_ptr<Capture> capture;
    bool unjoined = false;  // has captured work that the origin of the capture has not waited for

    bool idle() const { return done == enqueued; }
    Point now() { return {shared_from_this(), enqueued}; }
};

struct Event {
    Device* device;
    unsigned flags;
    std::optional<Point> recorded;
    double milliseconds = 0;
    std::shared_ptr<Capture> captured;
    Stream* captured_on = nullptr;
    int polls = 0;

    bool ready() const { return !recorded || recorded->stream->done >= recorded->index; }
};

extern std::vector<StreamPointer>& streams;  // all that have work or a handle
StreamPointer stream_of(void* handle);
// Puts work behind that of the stream, and behind that of others where CUDA orders them; or into the graph that is captured.
void enqueue(const StreamPointer& stream, const std::string& what, std::function<void()> run, NodeType type = NodeType::Kernel,
             std::vector<Point> after = {});
void run_until(const Point& point);
void run_all(const Device* device = nullptr);  // all streams' work, or a device's
void synchronise(const StreamPointer& stream);

enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

struct Node {
    std::string what;
    std::function<void()> run;
    NodeType type;
};
typedef std::vector<Node> Graph;

struct Capture {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    CaptureMode mode;
    Stream* origin;
    std::thread::id thread;
    bool invalid = false;
    std::set<Stream*> joined;
};
// What a capture forbids. Each fails, and what is captured gets invalid.
void forbid_in_captures(const char* what);  // calls that a global capture, or one of this thread, does not allow
void forbid_while_captured(const Device& device, const char* what);
void forbid_if_captured(const StreamPointer& stream, const char* what);
void forbid_legacy_beside_capture(const StreamPointer& stream);
bool wait_in_capture(const StreamPointer& stream, Event& event);  // whether the wait belongs to a capture

Status status_of(Fault fault);
u64 live_handles(int kind);  // 0: streams, 1: events, 2: allocations
u64 pending();               // operations that have not run
extern u64 launches;
void print_statistics();

// Calls. A body fails by raising Error; the runtime's calls also begin with a device, and remember their last error.
// Bodies go as a function and what it belongs to, since a call of the driver must cost little.
typedef void (*Body)(void* closure);
int driver_call(const char* name, Body body, void* closure);
int runtime_call(const char* name, Body body, void* closure);
template <class F> int call(int (*as)(const char*, Body, void*), const char* name, F body) {
    return as(name, [](void* closure) { (*static_cast<F*>(closure))(); }, &body);
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

// A function of the driver: DRIVER(name, (parameters), body)
#define DRIVER(NAME, PARAMETERS, ...)                          \
    EXPORTED int NAME PARAMETERS {                             \
        return call(driver_call, #NAME, [&] { __VA_ARGS__; }); \
    }

// A function of the runtime that takes the place of NVIDIA's; redirect.cpp says why.
struct Replacement {
    Replacement(const char* name, void* function);
};
#define RUNTIME(NAME, PARAMETERS, ...)                          \
    static int NAME PARAMETERS {                                \
        return call(runtime_call, #NAME, [&] { __VA_ARGS__; }); \
    }                                                           \
    static const Replacement replaced_##NAME(#NAME, reinterpret_cast<void*>(NAME));
extern int runtime_major;  // of the CUDA runtime that CuPy was built with
