// Captures and graphs. While a stream is captured, its work goes into a graph, and calls that could wait for it are errors;
// CUDA's rules of captures are followed one by one, each with its own status.
#include "driver.h"

namespace {

[[noreturn]] void invalidate(Capture& capture, Status status, const char* what) {
    capture.invalid = true;
    fail(status, "%s", what);
}

// A blocking stream of the device that is captured: the legacy stream must not be used beside it.
Stream* captured_blocking(const Device& device) {
    for (const StreamPointer& stream : streams) {
        if (stream->device == &device && stream->capture && stream->blocking && !stream->legacy) return stream.get();
    }
    return nullptr;
}

void begin(const StreamPointer& stream, CaptureMode mode) {
    if (stream->legacy) fail(CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
    if (stream->capture) refuse(ILLEGAL_STATE);
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = mode;
    stream->capture->origin = stream.get();
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->joined = {stream.get()};
    stream->unjoined = false;
}

std::shared_ptr<Graph> end(const StreamPointer& stream) {
    const auto capture = stream->capture;
    if (!capture) refuse(ILLEGAL_STATE);
    if (capture->origin != stream.get()) fail(CAPTURE_UNMATCHED, "a capture ends on another stream than it began on");
    if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id()) {
        fail(CAPTURE_WRONG_THREAD, "a capture ends in another thread than it began in");
    }
    bool unjoined = false;
    for (Stream* const each : capture->joined) {
        unjoined |= each != stream.get() && each->unjoined;
        each->capture = nullptr;
        each->unjoined = false;
    }
    if (capture->invalid) fail(CAPTURE_INVALIDATED, "the capture is invalid");
    if (unjoined) fail(CAPTURE_UNJOINED, "the capture's stream has not waited for another one that it captured");
    return capture->graph;
}

enum CaptureStatus : int { NONE_ACTIVE, ACTIVE, INVALIDATED };

int status(const StreamPointer& stream) {
    if (stream->legacy && captured_blocking(*stream->device)) refuse(CAPTURE_IMPLICIT);
    return !stream->capture ? NONE_ACTIVE : stream->capture->invalid ? INVALIDATED : ACTIVE;
}

// A graph that is launched keeps its nodes until it has run.
void launch(const std::shared_ptr<Graph>& graph, const StreamPointer& stream) {
    enqueue(
        stream, "graph",
        [graph] {
            for (const Node& node : *graph) node.run();
        },
        NodeType::Graph);
}

typedef std::shared_ptr<Graph> GraphPointer;

}  // namespace

void forbid_in_captures(const char* what) {
    for (const StreamPointer& stream : streams) {
        if (!stream->capture || stream->capture->mode == CaptureMode::Relaxed) continue;
        if (stream->capture->mode == CaptureMode::ThreadLocal && stream->capture->thread != std::this_thread::get_id()) continue;
        invalidate(*stream->capture, CAPTURE_UNSUPPORTED, (std::string(what) + " during a capture").c_str());
    }
}

void forbid_while_captured(const Device& device, const char* what) {
    for (const StreamPointer& stream : streams) {
        if (stream->device == &device) forbid_if_captured(stream, what);
    }
}

void forbid_if_captured(const StreamPointer& stream, const char* what) {
    if (stream->capture)
        invalidate(*stream->capture, CAPTURE_UNSUPPORTED, (std::string(what) + " while a stream is captured").c_str());
}

void forbid_legacy_beside_capture(const StreamPointer& stream) {
    if (!stream->legacy) return;
    if (Stream* const other = captured_blocking(*stream->device)) {
        invalidate(*other->capture, CAPTURE_IMPLICIT, "the legacy stream is used while a blocking stream is captured");
    }
}

bool wait_in_capture(const StreamPointer& stream, Event& event) {
    if (!event.captured) {
        if (stream->capture)
            invalidate(*stream->capture, CAPTURE_ISOLATION, "a captured stream waits for an event from outside of the capture");
        return false;
    }
    if (stream->capture != event.captured) {
        if (stream->capture) {
            event.captured->invalid = true;
            invalidate(*stream->capture, CAPTURE_MERGE, "a captured stream waits for an event of another capture");
        }
        if (stream->legacy) fail(CAPTURE_IMPLICIT, "the legacy stream waits for an event of a capture");
        stream->capture = event.captured;
        stream->capture->joined.insert(stream.get());
        stream->unjoined = true;
    }
    if (event.captured_on != stream.get()) event.captured_on->unjoined = false;
    return true;
}

RUNTIME(cudaStreamBeginCapture, (void* stream, CaptureMode mode), begin(stream_of(stream), mode))
RUNTIME(cudaStreamEndCapture, (void* stream, GraphPointer** to), *to = nullptr; *to = new GraphPointer(end(stream_of(stream))))
RUNTIME(cudaStreamIsCapturing, (void* stream, int* to), *to = status(stream_of(stream)))
RUNTIME(cudaGraphDestroy, (GraphPointer* graph), delete graph)
RUNTIME(cudaGraphInstantiate, (GraphPointer** to, GraphPointer* graph, unsigned long long), *to = new GraphPointer(*graph))
RUNTIME(cudaGraphExecDestroy, (GraphPointer* graph), delete graph)
RUNTIME(cudaGraphLaunch, (GraphPointer* graph, void* stream), launch(*graph, stream_of(stream)))
RUNTIME(cudaGraphUpload, (GraphPointer*, void* stream), stream_of(stream))
