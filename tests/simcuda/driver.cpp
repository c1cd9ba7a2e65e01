// Settings, errors and the lock.
#include "driver.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

const char* setting(const char* name, const char* otherwise) {
    const char* const value = std::getenv((std::string("SIMCUDA_") + name).c_str());
    return value && *value ? value : otherwise;
}

int number(const char* name, const char* otherwise) { return std::atoi(setting(name, otherwise)); }

Settings read_settings() {
    const int version = number("VERSION", "13000");
    return {.devices = number("DEVICES", "2"),
            .multiprocessors = number("SMS", "132"),
            .compute_capability = number("CC", "90"),
            .version = version,
            .newest_ptx = number("PTX", std::to_string(version / 1000 - 4).c_str()),
            .memory = static_cast<u64>(std::atof(setting("MEMORY_GB", "4")) * (1 << 30)),
            .late = static_cast<u32>(number("LATE", "0")),
            .polls = number("POLLS", "50"),
            .peers = number("PEERS", "1") != 0,
            .null = number("NULL", "0") != 0,
            .sticky = number("STICKY", "0") != 0,
            .trace = number("TRACE", "0") != 0,
            .statistics = number("STATS", "0") != 0,
            .quiet = number("QUIET", "0") != 0,
            .dump = std::getenv("SIMCUDA_DUMP")};
}

// The state outlives the process's other objects, whose destructors still call the driver.
std::recursive_mutex& lock = *new std::recursive_mutex;
thread_local int depth = 0;
thread_local int last_error = SUCCESS;

int called(const char* name, bool of_runtime, Body body, void* closure) {
    if (settings.trace) say("%s", name);
    try {
        if (of_runtime) begin_runtime();
        body(closure);
        return SUCCESS;
    } catch (const Error& error) {
        return error.status;
    }
}

void print(const char* prefix, const char* format, va_list arguments) {
    if (settings.quiet) return;
    std::fprintf(stderr, "simcuda: %s", prefix);
    std::vfprintf(stderr, format, arguments);
    std::fputc('\n', stderr);
    std::fflush(stderr);
}

}  // namespace

const Settings& settings = *new Settings(read_settings());

void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print("", format, arguments);
    va_end(arguments);
}

void fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(("error " + std::to_string(status) + ": ").c_str(), format, arguments);
    va_end(arguments);
    throw Error{status};
}

void refuse(Status status) { throw Error{status}; }

Locked::Locked() {
    lock.lock();
    ++depth;
}

Locked::~Locked() {
    --depth;
    lock.unlock();
}

Unlocked::Unlocked() : depth(::depth) {
    for (int i = 0; i < depth; ++i) lock.unlock();
    ::depth = 0;
}

Unlocked::~Unlocked() {
    for (int i = 0; i < depth; ++i) lock.lock();
    ::depth = depth;
}

int driver_call(const char* name, Body body, void* closure) {
    Locked locked;
    return called(name, false, body, closure);
}

int runtime_call(const char* name, Body body, void* closure) {
    Locked locked;
    const int status = called(name, true, body, closure);
    if (status != SUCCESS && status != NOT_READY) last_error = status;
    return status;
}

Status status_of(Fault fault) {
    switch (fault) {
        case Fault::Misaligned: return MISALIGNED_ADDRESS;
        case Fault::Outside:
        case Fault::NotAtomic:
        case Fault::BeyondParameters:
        case Fault::BeyondLocal:
        case Fault::BeyondShared: return ILLEGAL_ADDRESS;
        default: return LAUNCH_FAILED;
    }
}

// The last error is not one itself.
static int cudaGetLastError() { return std::exchange(last_error, SUCCESS); }
static int cudaPeekAtLastError() { return last_error; }
static const Replacement replaced_get("cudaGetLastError", reinterpret_cast<void*>(cudaGetLastError));
static const Replacement replaced_peek("cudaPeekAtLastError", reinterpret_cast<void*>(cudaPeekAtLastError));

namespace {

struct Named {
    const char *name, *text;
};

const std::map<int, Named> NAMES = {
    {SUCCESS, {"SUCCESS", "no error"}},
    {INVALID_VALUE, {"ERROR_INVALID_VALUE", "invalid argument"}},
    {OUT_OF_MEMORY, {"ERROR_OUT_OF_MEMORY", "out of memory"}},
    {NOT_INITIALIZED, {"ERROR_NOT_INITIALIZED", "initialization error"}},
    {NO_DEVICE, {"ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {INVALID_DEVICE, {"ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {INVALID_IMAGE, {"ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {INVALID_CONTEXT, {"ERROR_INVALID_CONTEXT", "invalid device context"}},
    {INVALID_PTX, {"ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {UNSUPPORTED_PTX_VERSION, {"ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."}},
    {INVALID_HANDLE, {"ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {ILLEGAL_STATE, {"ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"}},
    {NOT_FOUND, {"ERROR_NOT_FOUND", "named symbol not found"}},
    {NOT_READY, {"ERROR_NOT_READY", "device not ready"}},
    {ILLEGAL_ADDRESS, {"ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {MISALIGNED_ADDRESS, {"ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
    {LAUNCH_FAILED, {"ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {NOT_SUPPORTED, {"ERROR_NOT_SUPPORTED", "operation not supported"}},
    {CAPTURE_UNSUPPORTED, {"ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {CAPTURE_INVALIDATED, {"ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
};

}  // namespace

DRIVER(cuGetErrorName, (int status, const char** text), {
    static std::map<int, std::string> names;
    const auto found = NAMES.find(status);
    std::string& name = names[status];
    name = std::string("CUDA_") + (found == NAMES.end() ? "ERROR_UNKNOWN" : found->second.name);
    *text = name.c_str();
})
DRIVER(cuGetErrorString, (int status, const char** text), {
    const auto found = NAMES.find(status);
    *text = found == NAMES.end() ? "unknown error" : found->second.text;
})

// What tests ask.
EXPORTED u64 simcuda_launches() { return launches; }
EXPORTED u64 simcuda_used(int device) { return allocations.used[device]; }
EXPORTED u64 simcuda_pending() {
    Locked locked;
    return pending();
}
EXPORTED u64 simcuda_handles(int kind) {
    Locked locked;
    return live_handles(kind);
}

__attribute__((destructor)) static void finish() {
    if (settings.statistics && launches) print_statistics();
}
