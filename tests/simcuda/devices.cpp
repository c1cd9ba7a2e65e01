// Devices, their contexts, and what they say of themselves.
#include <cstdio>
#include <cstdlib>

#include "driver.h"

namespace {

constexpr int MOST_DEVICES = 16, LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5;
Device* const devices = new Device[MOST_DEVICES];
bool initialised = false;
thread_local Device* current = nullptr;
thread_local std::vector<Device*> pushed;  // the contexts below the current one
thread_local int chosen = 0;               // the runtime's device where the thread has no context
std::set<std::pair<int, int>> peers;

void initialise() {
    for (int number = 0; number < MOST_DEVICES; ++number) devices[number].number = number;
    initialised = true;
    if (!settings.devices) refuse(NO_DEVICE);
}

// Attributes by CUDA's numbers. Those that are not here are 0.
const std::map<int, int> ATTRIBUTES = {
    {1, 1024},         // threads of a block
    {2, 1024},         // of a block, along x
    {3, 1024},         // y
    {4, 64},           // z
    {5, 2147483647},   // blocks of a grid, along x
    {6, 65535},        // y
    {7, 65535},        // z
    {8, 49152},        // shared memory of a block, bytes
    {9, 65536},        // constant memory
    {10, LANES},       // threads of a warp
    {11, 2147483647},  // pitch
    {12, 65536},       // registers of a block
    {13, 1980000},     // clock, kHz
    {14, 512},         // alignment of textures
    {15, 1},           // overlaps copies
    {19, 1},           // maps memory of the host
    {31, 1},           // concurrent kernels
    {36, 2619000},     // memory's clock, kHz
    {37, 5120},        // memory's bus, bits
    {38, 52428800},    // L2 cache, bytes
    {39, 2048},        // threads of a multiprocessor
    {40, 3},           // engines for copies
    {41, 1},           // unified addresses
    {78, 1},           // priorities of streams
    {79, 1},           // caches in L1: globals
    {80, 1},           // and locals
    {81, 233472},      // shared memory of a multiprocessor
    {82, 65536},       // registers of a multiprocessor
    {83, 1},           // managed memory
    {89, 1},           // concurrent managed access
    {90, 1},           // preemption
    {95, 1},           // cooperative launches
    {97, 232448},      // shared memory of a block that asks for more
    {106, 32},         // blocks of a multiprocessor
    {111, 1024},       // shared memory that is reserved
    {115, 1},          // pools of memory
};

int attribute(int number, int device) {
    switch (number) {
        case 16: return settings.multiprocessors;
        case 33: return device + 1;  // the bus on which it is
        case 75: return settings.compute_capability / 10;
        case 76: return settings.compute_capability % 10;
        default: break;
    }
    const auto found = ATTRIBUTES.find(number);
    return found == ATTRIBUTES.end() ? 0 : found->second;
}

// A field of cudaDeviceProp: where it stands in CUDA 12 and in 13, its bytes, and the attributes that it holds, one by one.
struct Property {
    int at12, at13, bytes;
    std::vector<int> attributes;
};
const Property PROPERTIES[] = {
    {296, 296, 8, {8}},       {304, 304, 4, {12}},      {308, 308, 4, {10}}, {312, 312, 8, {11}},     {320, 320, 4, {1}},
    {324, 324, 4, {2, 3, 4}}, {336, 336, 4, {5, 6, 7}}, {352, 352, 8, {9}},  {360, 360, 4, {75, 76}}, {368, 368, 8, {14}},
    {388, 384, 4, {16}},      {400, 392, 4, {19}},      {576, 560, 4, {31}}, {584, 568, 4, {33}},     {600, 584, 4, {40, 41}},
    {612, 592, 4, {37, 38}},  {624, 604, 4, {39, 78}},  {640, 624, 8, {81}}, {648, 632, 4, {82, 83}}, {696, 672, 8, {97}},
    {720, 696, 8, {111}},
};
constexpr int NAME = 256, MEMORY_AT = 288, PROPERTY_BYTES[] = {1032, 1008};

void write_properties(u8* to, int number, bool cuda12) {
    std::memset(to, 0, static_cast<std::size_t>(PROPERTY_BYTES[!cuda12]));
    std::snprintf(reinterpret_cast<char*>(to), NAME, "Simulated GPU %d", number);
    std::memcpy(to + MEMORY_AT, &settings.memory, 8);
    for (const Property& property : PROPERTIES) {
        u8* at = to + (cuda12 ? property.at12 : property.at13);
        for (const int each : property.attributes) {
            const s64 value = attribute(each, number);
            std::memcpy(at, &value, static_cast<std::size_t>(property.bytes));
            at += property.bytes;
        }
    }
}

}  // namespace

Device& device(int number) {
    if (!initialised) refuse(NOT_INITIALIZED);
    if (number < 0 || number >= settings.devices) refuse(INVALID_DEVICE);
    return devices[number];
}

Device& device_of_context(const void* context) {
    for (int number = 0; number < settings.devices; ++number) {
        if (context == &devices[number]) return devices[number];
    }
    fail(INVALID_CONTEXT, "no context %p", context);
}

bool peer_access(int from, int to) { return peers.contains({from, to}); }

Device& current_device() {
    if (!initialised) refuse(NOT_INITIALIZED);
    if (!current) fail(INVALID_CONTEXT, "this thread has no current context");
    if (current->sticky) refuse(static_cast<Status>(current->sticky));
    return *current;
}

void begin_runtime() {
    if (settings.version / 1000 < runtime_major) refuse(INSUFFICIENT_DRIVER);
    if (!initialised) initialise();
    if (!current) current = &devices[chosen];
}

DRIVER(cuInit, (unsigned), initialise())
// NVRTC asks for what is NVIDIA's own, and does without.
DRIVER(cuGetExportTable, (const void**, const void*), refuse(INVALID_VALUE))
DRIVER(cuDriverGetVersion, (int* version), *version = settings.version)
DRIVER(cuDeviceGet, (int* to, int number), *to = device(number).number)
DRIVER(cuDeviceGetCount, (int* count), device(0); *count = settings.devices)
DRIVER(cuDeviceGetName, (char* to, int size, int number),
       std::snprintf(to, static_cast<std::size_t>(size), "Simulated GPU %d", device(number).number))
DRIVER(cuDeviceTotalMem_v2, (u64* bytes, int number), device(number); *bytes = settings.memory)
DRIVER(cuDeviceGetAttribute, (int* to, int which, int number), *to = attribute(which, device(number).number))
DRIVER(cuDevicePrimaryCtxRetain, (void** context, int number), *context = &device(number))
DRIVER(cuDevicePrimaryCtxRelease_v2, (int number), device(number))
DRIVER(cuCtxGetCurrent, (void** context), *context = current)
DRIVER(cuCtxSetCurrent, (void* context), current = context ? &device_of_context(context) : nullptr)
DRIVER(cuCtxPushCurrent_v2, (void* context), pushed.push_back(current); current = &device_of_context(context))
DRIVER(cuCtxPopCurrent_v2, (void** context), {
    if (pushed.empty()) fail(INVALID_CONTEXT, "nothing was pushed");
    *context = current;
    current = pushed.back();
    pushed.pop_back();
})
DRIVER(cuCtxGetDevice, (int* number), *number = current_device().number)

static int cudaDriverGetVersion(int* version) { return cuDriverGetVersion(version); }  // also of a driver that is too old
static const Replacement replaced_version("cudaDriverGetVersion", reinterpret_cast<void*>(cudaDriverGetVersion));
RUNTIME(cudaGetDevice, (int* number), *number = current->number)
RUNTIME(cudaGetDeviceCount, (int* count), *count = settings.devices)
RUNTIME(cudaSetDevice, (int number), current = &device(number); chosen = number)
RUNTIME(cudaDeviceGetAttribute, (int* to, int which, int number), *to = attribute(which, device(number).number))
// CUDA 12 has a second version, whose name CUDA 13 has given up.
RUNTIME(cudaGetDeviceProperties_v2, (u8* to, int number), write_properties(to, device(number).number, true))
RUNTIME(cudaGetDeviceProperties, (u8* to, int number), write_properties(to, device(number).number, runtime_major < 13))
RUNTIME(cudaDeviceGetPCIBusId, (char* to, int size, int number),
        std::snprintf(to, static_cast<std::size_t>(size), "0000:%02x:00.0", device(number).number + 1))
RUNTIME(cudaDeviceGetByPCIBusId, (int* number, const char* from),
        *number = device(static_cast<int>(std::strtol(from + 5, nullptr, 16)) - 1).number)
RUNTIME(cudaDeviceCanAccessPeer, (int* can, int from, int to), *can = settings.peers && device(from).number != device(to).number)
RUNTIME(cudaDeviceEnablePeerAccess, (int to, unsigned),
        if (!peers.insert({current_device().number, device(to).number}).second) refuse(PEER_ACCESS_ALREADY_ENABLED))
RUNTIME(cudaDeviceDisablePeerAccess, (int to), peers.erase({current_device().number, device(to).number}))
RUNTIME(cudaDeviceGetLimit, (u64* value, unsigned which), *value = which < 16 ? current_device().limits[which] : 0)
RUNTIME(cudaDeviceSetLimit, (unsigned which, u64 value), if (which < 16) current_device().limits[which] = value)
RUNTIME(cudaDeviceSynchronize, (), {
    Device& here = current_device();
    forbid_while_captured(here, "the device is waited for");
    run_all(&here);
    if (here.sticky) refuse(static_cast<Status>(here.sticky));
})
RUNTIME(cudaProfilerStart, (), )
RUNTIME(cudaProfilerStop, (), )
