// Streams and events. A stream is a queue of work. What runs when is up to `settings.late`: what nobody waits for may run at any
// time after what it is ordered behind, so a program that forgets to wait or to order gets to see it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "driver.h"

std::vector<StreamPointer>& streams = *new std::vector<StreamPointer>;

namespace {

std::set<Stream*>& handles = *new std::set<Stream*>;
std::set<Event*>& events = *new std::set<Event*>;
thread_local std::map<Device*, StreamPointer> of_thread;
u64 made = 0;

constexpr u64 LEGACY = 1, PER_THREAD = 2;  // handles that CUDA names
constexpr unsigned NON_BLOCKING = 1, WITHOUT_TIMING = 2;
constexpr std::size_t MANY = 4096;

u32 random_number() {
    static std::mt19937 engine(settings.late);
    return static_cast<u32>(engine());
}

StreamPointer make(Device& device, bool blocking) {
    if (streams.size() > MANY)
        std::erase_if(streams, [](const StreamPointer& stream) { return !stream->alive && stream->idle(); });
    const auto stream = std::make_shared<Stream>();
    stream->device = &device;
    stream->blocking = blocking;
    stream->number = ++made;
    return streams.emplace_back(stream);
}

void check(const Device& device) {
    if (device.sticky) refuse(static_cast<Status>(device.sticky));
}

// Runs a function of the device. A fault aborts, so that it cannot be overlooked, or sticks.
void execute(Device& device, const std::function<void()>& run) {
    if (device.sticky) return;
    try {
        run();
    } catch (const Violation& violation) {
        std::fprintf(stderr, "simcuda: FAULT on device %d: %s\n", device.number, violation.what());
        std::fflush(stderr);
        if (!settings.sticky) std::abort();
        device.sticky = status_of(violation.fault);
    }
}

void run_first(const StreamPointer& stream) {
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    for (const Point& point : work.after) run_until(point);
    execute(*stream->device, work.run);
    ++stream->done;
}

// The legacy stream and blocking ones wait for each other.
void order_with_legacy(const StreamPointer& stream, std::vector<Point>& after) {
    if (stream->legacy) {
        for (const StreamPointer& other : streams) {
            if (other != stream && other->device == stream->device && other->blocking && !other->idle())
                after.push_back(other->now());
        }
    } else if (stream->blocking && stream->device->legacy && !stream->device->legacy->idle()) {
        after.push_back(stream->device->legacy->now());
    }
}

Event& event_of(void* handle) {
    const auto event = static_cast<Event*>(handle);
    if (!events.contains(event)) fail(INVALID_HANDLE, "no event %p: it was destroyed, or never made", handle);
    return *event;
}

void* new_stream(unsigned flags, int priority) {
    const StreamPointer stream = make(current_device(), !(flags & NON_BLOCKING));
    stream->flags = flags;
    stream->priority = priority;
    handles.insert(stream.get());
    return stream.get();
}

void* new_event(unsigned flags) {
    const auto event = new Event{.device = &current_device(), .flags = flags, .recorded = {}, .captured = {}};
    events.insert(event);
    return event;
}

void record(Event& event, const StreamPointer& stream) {
    if (stream->device != event.device) {
        fail(INVALID_HANDLE, "an event of device %d is recorded on a stream of device %d", event.device->number,
             stream->device->number);
    }
    if (stream->capture) {
        if (stream->capture->invalid) refuse(CAPTURE_INVALIDATED);
        event.captured = stream->capture;
        event.captured_on = stream.get();
        return;
    }
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event.captured = nullptr;
    event.polls = 0;
    event.milliseconds = static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
    enqueue(stream, "record", [] {}, NodeType::Empty);
    event.recorded = stream->now();
}

// Whether a query says "not ready" once more.
bool still_busy(int& polls) {
    if (++polls < settings.polls) return true;
    polls = 0;
    return false;
}

void forbid_if_captured(const Event& event, const char* what) {
    if (!event.captured) return;
    event.captured->invalid = true;
    fail(CAPTURED_EVENT, "%s, which is of a capture", what);
}

double elapsed(const Event& from, const Event& to) {
    if ((from.flags | to.flags) & WITHOUT_TIMING || !from.recorded || !to.recorded) refuse(INVALID_HANDLE);
    if (!from.ready() || !to.ready()) refuse(NOT_READY);
    return to.milliseconds - from.milliseconds;
}

}  // namespace

StreamPointer stream_of(void* handle) {
    const u64 number = reinterpret_cast<u64>(handle);
    if (number <= PER_THREAD) {
        Device& device = current_device();
        StreamPointer& stream = number <= LEGACY ? device.legacy : of_thread[&device];
        if (!stream) stream = make(device, true);
        stream->legacy = number <= LEGACY;
        return stream;
    }
    const auto stream = static_cast<Stream*>(handle);
    if (!handles.contains(stream)) fail(INVALID_HANDLE, "no stream %p: it was destroyed, or never made", handle);
    check(*stream->device);
    return stream->shared_from_this();
}

void enqueue(const StreamPointer& stream, const std::string& what, std::function<void()> run, NodeType type,
             std::vector<Point> after) {
    if (stream->capture) {
        if (stream->capture->invalid) refuse(CAPTURE_INVALIDATED);
        stream->capture->graph->push_back({what, std::move(run), type});
        if (stream.get() != stream->capture->origin) stream->unjoined = true;
        return;
    }
    forbid_legacy_beside_capture(stream);
    order_with_legacy(stream, after);
    if (settings.trace) say("stream %lu, operation %lu: %s", stream->number, stream->enqueued + 1, what.c_str());
    stream->queue.push_back({what, std::move(run), std::move(after)});
    ++stream->enqueued;
    if (settings.late == 0) run_until(stream->now());
    for (u32 some = settings.late > 1 ? random_number() % 3 : 0; some; --some) {
        const StreamPointer other = streams[random_number() % streams.size()];
        if (!other->idle()) run_first(other);
    }
    check(*stream->device);
}

void run_until(const Point& point) {
    while (point.stream->done < point.index) run_first(point.stream);
}

void run_all(const Device* device) {
    for (std::size_t i = 0; i < streams.size(); ++i) {  // work may make more of them
        const StreamPointer stream = streams[i];
        if (!device || stream->device == device) run_until(stream->now());
    }
}

void synchronise(const StreamPointer& stream) {
    forbid_if_captured(stream, "a stream is waited for");
    forbid_legacy_beside_capture(stream);
    std::vector<Point> after;
    if (stream->legacy) order_with_legacy(stream, after);
    for (const Point& point : after) run_until(point);
    run_until(stream->now());
    check(*stream->device);
}

u64 live_handles(int kind) { return kind == 0 ? handles.size() : kind == 1 ? events.size() : allocations.count(); }

u64 pending() {
    u64 count = 0;
    for (const StreamPointer& stream : streams) count += stream->enqueued - stream->done;
    return count;
}

void print_statistics() {
    std::fprintf(stderr,
                 "simcuda: %lu launches; most bytes: %lu, %lu; left: %lu streams, %lu events, %lu allocations; operations that "
                 "never ran: %lu\n",
                 launches, allocations.most[0], allocations.most[1], live_handles(0), live_handles(1), live_handles(2),
                 pending());
}

DRIVER(cuStreamGetCtx, (void* stream, void** context), *context = stream_of(stream)->device)

RUNTIME(cudaStreamCreate, (void** to), *to = new_stream(0, 0))
RUNTIME(cudaStreamCreateWithFlags, (void** to, unsigned flags), *to = new_stream(flags, 0))
RUNTIME(cudaStreamCreateWithPriority, (void** to, unsigned flags, int priority), *to = new_stream(flags, priority))
RUNTIME(cudaStreamDestroy, (void* handle), {
    const StreamPointer stream = stream_of(handle);  // its work is done all the same
    if (stream->capture) stream->capture->invalid = true;
    stream->capture = nullptr;
    stream->alive = false;
    handles.erase(stream.get());
    if (stream->idle()) std::erase(streams, stream);
})
RUNTIME(cudaStreamSynchronize, (void* stream), synchronise(stream_of(stream)))
RUNTIME(cudaStreamQuery, (void* handle), {
    const StreamPointer stream = stream_of(handle);
    forbid_if_captured(stream, "a stream is asked");
    forbid_legacy_beside_capture(stream);
    if (!stream->idle() && still_busy(stream->polls)) refuse(NOT_READY);
    run_until(stream->now());
})
RUNTIME(cudaStreamWaitEvent, (void* handle, void* waited, unsigned), {
    const StreamPointer stream = stream_of(handle);
    Event& event = event_of(waited);
    if (wait_in_capture(stream, event) || !event.recorded) return;
    enqueue(stream, "wait", [] {}, NodeType::Empty, {*event.recorded});
})
RUNTIME(cudaStreamGetFlags, (void* stream, unsigned* flags), *flags = stream_of(stream)->flags)
RUNTIME(cudaStreamGetPriority, (void* stream, int* priority), *priority = stream_of(stream)->priority)
RUNTIME(cudaLaunchHostFunc, (void* stream, void (*function)(void*), void* data), {
    enqueue(
        stream_of(stream), "function of the host",
        [=] {
            Unlocked unlocked;
            function(data);
        },
        NodeType::Host);
})
RUNTIME(cudaStreamAddCallback, (void* stream, void (*function)(void*, int, void*), void* data, unsigned), {
    enqueue(
        stream_of(stream), "callback",
        [=] {
            Unlocked unlocked;
            function(stream, SUCCESS, data);
        },
        NodeType::Host);
})

RUNTIME(cudaEventCreate, (void** to), *to = new_event(0))
RUNTIME(cudaEventCreateWithFlags, (void** to, unsigned flags), *to = new_event(flags))
RUNTIME(cudaEventDestroy, (void* handle), {
    Event* const event = &event_of(handle);
    events.erase(event);
    delete event;
})
RUNTIME(cudaEventRecord, (void* event, void* stream), record(event_of(event), stream_of(stream)))
RUNTIME(cudaEventQuery, (void* handle), {
    Event& event = event_of(handle);
    forbid_if_captured(event, "an event is asked");
    if (!event.ready() && still_busy(event.polls)) refuse(NOT_READY);
    if (event.recorded) run_until(*event.recorded);
    check(*event.device);
})
RUNTIME(cudaEventSynchronize, (void* handle), {
    Event& event = event_of(handle);
    forbid_if_captured(event, "an event is waited for");
    if (event.recorded) run_until(*event.recorded);
    check(*event.device);
})
RUNTIME(cudaEventElapsedTime, (float* to, void* from, void* until),
        *to = static_cast<float>(elapsed(event_of(from), event_of(until))))
