// Memory: allocations, copies and sets.
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "driver.h"

namespace {

constexpr u8 NEW = 0xA5, FREED = 0xDB;  // what memory holds that nobody has written, and that is no longer anybody's
constexpr u64 PAGE = 4096, GAP = 512;   // between allocations, so that an access beyond one hits no other
constexpr u64 MOST_FILLED = 64 << 20, MOST_CLEARED = 1 << 20;
constexpr u64 STAGED = 64 << 10;  // a copy of so much pageable memory returns before it is done

u64 aligned(u64 at, u64 alignment) { return (at + alignment - 1) / alignment * alignment; }

}  // namespace

Allocations& allocations = *new Allocations;

void Allocations::reserve() {
    if (region) return;
    file = memfd_create("simcuda", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(REGION))) std::abort();
    void* const seen = mmap(nullptr, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* const data = mmap(nullptr, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (seen == MAP_FAILED || data == MAP_FAILED) std::abort();
    region = reinterpret_cast<u64>(seen);
    to_data = static_cast<s64>(reinterpret_cast<u64>(data) - region);
}

void Allocations::add(u64 address, u64 size, int device, Kind kind) {
    u8* const data = reinterpret_cast<u8*>(address + static_cast<u64>(is_device_address(address) ? to_data : 0));
    const Buffer buffer = {.address = address,
                           .size = size,
                           .data = data,
                           .stored = nullptr,
                           .sparse = nullptr,
                           .counts = nullptr,
                           .flags = READABLE | WRITABLE | ATOMIC | REPEATED};
    live[address] = {buffer, device, kind, ++made};
}

u64 Allocations::allocate(u64 size, int device, Kind kind) {
    u64 address;
    if (kind == Kind::Pinned || kind == Kind::Managed) {
        address = reinterpret_cast<u64>(std::aligned_alloc(PAGE, aligned(size, PAGE)));
    } else {
        reserve();
        if (used[device] + size > settings.memory) refuse(OUT_OF_MEMORY);
        next = aligned(next, size >= PAGE ? PAGE : GAP);
        address = region + next;
        next += size + GAP;
        if (next > REGION) fail(OUT_OF_MEMORY, "no addresses are left");
        used[device] += size;
        most[device] = std::max(most[device], used[device]);
    }
    add(address, size, device, kind);
    if (size <= MOST_FILLED) std::memset(live[address].buffer.data, NEW, size);
    return address;
}

void Allocations::release(u64 address, bool pinned) {
    const auto found = live.find(address);
    if (found == live.end())
        fail(INVALID_VALUE, "%#" PRIx64 " is freed, where no allocation begins%s", address, near(address).c_str());
    const Allocation gone = found->second;
    if (pinned != (gone.kind == Kind::Pinned)) fail(INVALID_VALUE, "%#" PRIx64 " is freed as memory of the other kind", address);
    live.erase(found);
    if (!is_device_address(address)) return std::free(reinterpret_cast<void*>(address));
    used[gone.device] -= gone.buffer.size;
    freed[address] = gone;
    if (gone.buffer.size <= MOST_CLEARED) std::memset(gone.buffer.data, FREED, gone.buffer.size);
    const u64 first = aligned(reinterpret_cast<u64>(gone.buffer.data), PAGE);
    const u64 end = (reinterpret_cast<u64>(gone.buffer.data) + gone.buffer.size) / PAGE * PAGE;
    if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_REMOVE);  // its pages go back to the system
}

void Allocations::forget(u64 address) { live.erase(address); }

Allocation* Allocations::find(u64 address) {
    auto above = live.upper_bound(address);
    if (above == live.begin()) return nullptr;
    Allocation& below = (--above)->second;
    return below.buffer.holds(address, 1) ? &below : nullptr;
}

std::string Allocations::near(u64 address) {
    std::string text;
    for (const auto& [all, what] : {std::pair{&live, ""}, {&freed, ", which was freed"}}) {
        auto above = all->upper_bound(address);
        if (above == all->begin()) continue;
        const Allocation& below = (--above)->second;
        if (address - below.buffer.address > below.buffer.size + MOST_CLEARED) continue;
        char line[200];
        std::snprintf(line, sizeof line, " (byte %" PRIu64 " of the %" PRIu64 " at %#" PRIx64 " on device %d%s)",
                      address - below.buffer.address, below.buffer.size, below.buffer.address, below.device, what);
        text += line;
    }
    return text;
}

u8* Allocations::bytes(u64 address, u64 size, const char* what) {
    if (!is_device_address(address)) return reinterpret_cast<u8*>(address);
    const Allocation* const found = find(address);
    if (!found || !found->buffer.holds(address, size)) {
        fail(INVALID_VALUE, "%s %" PRIu64 " bytes at %#" PRIx64 ", outside every allocation%s", what, size, address,
             near(address).c_str());
    }
    return found->buffer.data + (address - found->buffer.address);
}

namespace {

// Copies of pageable memory read it before they return, up to STAGED bytes; others read and write when the stream gets there.
void copy_bytes(const StreamPointer& stream, u64 to, u64 from, u64 size, bool waits) {
    if (!size) return;
    u8* const target = allocations.bytes(to, size, "a copy writes");
    const u8* const source = allocations.bytes(from, size, "a copy reads");
    const Allocation *const kept = allocations.find(to), *const read = allocations.find(from);
    if (!read && kept && !stream->capture) {
        const auto staged = std::make_shared<std::vector<u8>>(source, source + size);
        enqueue(stream, "copy from the host", [=] { std::memcpy(target, staged->data(), size); }, NodeType::Copy);
        if (waits && size > STAGED) synchronise(stream);
        return;
    }
    enqueue(stream, "copy", [=] { std::memmove(target, source, size); }, NodeType::Copy);
    if (stream->capture) return;
    const bool within_devices = kept && read && kept->kind == Kind::Device && read->kind == Kind::Device;
    if (!kept || (waits && !within_devices)) synchronise(stream);
}

enum class Direction : int { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default };

bool on_device(u64 address) {
    const Allocation* const found = allocations.find(address);
    return allocations.is_device_address(address) || (found && !found->on_host());
}

// Pinned memory may be taken for either.
void check_direction(u64 to, u64 from, Direction direction) {
    if (direction == Direction::Default) return;
    const auto fits = [](u64 address, bool device) {
        return on_device(address) == device || (device && allocations.find(address));
    };
    const bool to_device = direction == Direction::HostToDevice || direction == Direction::DeviceToDevice;
    const bool from_device = direction == Direction::DeviceToHost || direction == Direction::DeviceToDevice;
    if (!fits(to, to_device) || !fits(from, from_device)) {
        fail(INVALID_VALUE, "a copy of kind %d from %#" PRIx64 " to %#" PRIx64 ": that is not where they lie",
             static_cast<int>(direction), from, to);
    }
}

void copy_rows(void* stream, u64 to, u64 to_pitch, u64 from, u64 from_pitch, u64 width, u64 height, bool waits) {
    for (u64 row = 0; row < height; ++row)
        copy_bytes(stream_of(stream), to + row * to_pitch, from + row * from_pitch, width, waits);
}

void set_bytes(void* stream, u64 at, int value, u64 count) {
    if (!count) return;
    u8* const to = allocations.bytes(at, count, "a set writes");
    enqueue(stream_of(stream), "set", [=] { std::memset(to, value, count); }, NodeType::Set);
}

void free_device_memory(u64 address) {
    if (!address) return;
    forbid_in_captures("memory is freed");
    run_all();
    allocations.release(address, false);
}

void free_later(u64 address, void* stream) {
    if (!allocations.find(address)) fail(INVALID_VALUE, "%#" PRIx64 " is freed, which is no allocation", address);
    enqueue(stream_of(stream), "free", [=] { allocations.release(address, false); }, NodeType::Free);
}

u64 allocate(u64 size, Kind kind) {
    const int here = current_device().number;
    forbid_in_captures("memory is allocated");
    return size ? allocations.allocate(size, here, kind) : 0;
}

u64 allocate_on(void* handle, u64 size) {
    const StreamPointer stream = stream_of(handle);
    if (stream->capture) fail(NOT_SUPPORTED, "memory is allocated on a stream that is captured");
    return allocations.allocate(size, stream->device->number, Kind::Device);
}

// The first members of cudaPointerAttributes, which all versions have. type: 0 unregistered, 1 host, 2 device, 3 managed.
struct PointerAttributes {
    int type, device;
    u64 device_pointer, host_pointer;
};

PointerAttributes attributes_of(u64 address) {
    const Allocation* const found = allocations.find(address);
    if (!found) {
        if (allocations.is_device_address(address))
            say("attributes of %#" PRIx64 ", outside every allocation%s", address, allocations.near(address).c_str());
        return {0, -2, 0, address};
    }
    const int type = found->on_host() ? 1 : found->kind == Kind::Managed ? 3 : 2;
    return {type, found->device, address, allocations.is_device_address(address) ? 0 : address};
}

std::map<std::pair<void*, int>, u64> pool_attributes;

}  // namespace

RUNTIME(cudaMalloc, (u64* to, u64 size), *to = allocate(size, Kind::Device))
RUNTIME(cudaMallocManaged, (u64* to, u64 size, unsigned), *to = allocate(size, Kind::Managed))
RUNTIME(cudaHostAlloc, (u64* to, u64 size, unsigned), *to = allocate(size, Kind::Pinned))
RUNTIME(cudaMallocAsync, (u64* to, u64 size, void* stream), *to = allocate_on(stream, size))
RUNTIME(cudaMallocFromPoolAsync, (u64* to, u64 size, void*, void* stream), *to = allocate_on(stream, size))
RUNTIME(cudaFree, (u64 address), free_device_memory(address))
RUNTIME(cudaFreeAsync, (u64 address, void* stream), free_later(address, stream))
RUNTIME(cudaFreeHost, (u64 address), {
    if (!address) return;
    forbid_in_captures("memory is freed");
    run_all();
    allocations.release(address, true);
})
RUNTIME(cudaHostRegister, (u64 address, u64 size, unsigned),
        allocations.add(address, size, current_device().number, Kind::Registered))
RUNTIME(cudaHostUnregister, (u64 address), run_all(); allocations.forget(address))
RUNTIME(cudaMemGetInfo, (u64* free, u64* all), *all = settings.memory;
        *free = settings.memory - allocations.used[current_device().number])
RUNTIME(cudaPointerGetAttributes, (struct PointerAttributes* to, u64 address), *to = attributes_of(address))
RUNTIME(cudaDeviceGetDefaultMemPool, (void** pool, int number), *pool = &device(number))
RUNTIME(cudaDeviceGetMemPool, (void** pool, int number), *pool = &device(number))
RUNTIME(cudaDeviceSetMemPool, (int number, void*), device(number))
RUNTIME(cudaMemPoolGetAttribute, (void* pool, int which, u64* value), *value = (pool_attributes[{pool, which}]))
RUNTIME(cudaMemPoolSetAttribute, (void* pool, int which, const u64* value), (pool_attributes[{pool, which}] = *value))
RUNTIME(cudaMemPoolTrimTo, (void*, u64), )

RUNTIME(cudaMemcpy, (u64 to, u64 from, u64 size, Direction direction), {
    if (size) check_direction(to, from, direction);
    forbid_in_captures("a copy is waited for");
    copy_bytes(stream_of(nullptr), to, from, size, true);
})
RUNTIME(cudaMemcpyAsync, (u64 to, u64 from, u64 size, Direction direction, void* stream), {
    if (size) check_direction(to, from, direction);
    copy_bytes(stream_of(stream), to, from, size, false);
})
RUNTIME(cudaMemcpyPeer, (u64 to, int, u64 from, int, u64 size), {
    forbid_in_captures("a copy is waited for");
    copy_bytes(stream_of(nullptr), to, from, size, true);
})
RUNTIME(cudaMemcpyPeerAsync, (u64 to, int, u64 from, int, u64 size, void* stream),
        copy_bytes(stream_of(stream), to, from, size, false))
RUNTIME(cudaMemcpy2D, (u64 to, u64 to_pitch, u64 from, u64 from_pitch, u64 width, u64 height, Direction),
        copy_rows(nullptr, to, to_pitch, from, from_pitch, width, height, true))
RUNTIME(cudaMemcpy2DAsync, (u64 to, u64 to_pitch, u64 from, u64 from_pitch, u64 width, u64 height, Direction, void* stream),
        copy_rows(stream, to, to_pitch, from, from_pitch, width, height, false))
RUNTIME(cudaMemset, (u64 at, int value, u64 size), set_bytes(nullptr, at, value, size))
RUNTIME(cudaMemsetAsync, (u64 at, int value, u64 size, void* stream), set_bytes(stream, at, value, size))
