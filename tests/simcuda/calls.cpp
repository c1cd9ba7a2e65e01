// Launches without CuPy and without a driver: what Python calls by ctypes. tests/kernels/ptx/structures.py declares the
// structures.
#include <cinttypes>
#include <cstdio>

#include "launch.h"

namespace {

// Buffers by rising addresses.
class BufferList : public Memory {
public:
    BufferList(const Buffer* buffers, s32 count) : buffers(buffers), end(buffers + count) {}

    const Buffer* find(u64 address) override {
        const Buffer* const below = at_or_below(address);
        return below && below->holds(address, 1) ? below : nullptr;
    }

    std::string near(u64 address) override {
        const Buffer* const below = at_or_below(address);
        if (!below) return "";
        char text[100];
        std::snprintf(text, sizeof text, " (byte %" PRIu64 " of the %" PRIu64 " at %#" PRIx64 ")", address - below->address,
                      below->size, below->address);
        return text;
    }

private:
    const Buffer* at_or_below(u64 address) const {
        const auto above =
            std::upper_bound(buffers, end, address, [](u64 at, const Buffer& buffer) { return at < buffer.address; });
        return above == buffers ? nullptr : above - 1;
    }

    const Buffer *buffers, *end;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

struct Facts {
    Kernel* kernel;
    const u64* executed;
    u32 instructions, parameter_bytes, static_shared;
};

struct Request {
    Kernel* kernel;
    const u8* parameters;
    const Buffer* buffers;
    LaunchCounts* totals;
    u64 most_instructions;
    s32 buffer_count;
    u32 grid, block, first_block, last_block, dynamic_shared;
};

struct Outcome {
    s32 fault, line;
    char text[1000];
};

// Returns the program, null with what is wrong in `error`.
Program* ptx_read(const char* text, char* error, u64 size) try {
    return new Program(parse(text, nullptr));
} catch (const ParseError& wrong) {
    std::snprintf(error, size, "%s", wrong.what());
    return nullptr;
}

void ptx_forget(Program* program) { delete program; }

Facts ptx_kernel(Program* program, const char* name) {
    const auto found = program->kernels.find(name);
    if (found == program->kernels.end()) return {};
    Kernel& kernel = found->second;
    return {&kernel, kernel.executed.data(), static_cast<u32>(kernel.code.size()), kernel.parameter_bytes, kernel.static_shared};
}

const char* ptx_text(const Kernel* kernel, u64 instruction) { return kernel->code[instruction].text.c_str(); }
s32 ptx_line(const Kernel* kernel, u64 instruction) { return kernel->code[instruction].line; }

void ptx_launch(const Request* request, Outcome* outcome) {
    BufferList memory(request->buffers, request->buffer_count);
    const Launch launch = {.kernel = *request->kernel,
                           .parameters = request->parameters,
                           .grid = {request->grid, 1, 1},
                           .block = {request->block, 1, 1},
                           .dynamic_shared = request->dynamic_shared,
                           .first_block = request->first_block,
                           .last_block = request->last_block,
                           .most_instructions = request->most_instructions,
                           .memory = memory,
                           .totals = request->totals,
                           .copies_unset = false};
    try {
        run(launch);
    } catch (const Violation& violation) {
        outcome->fault = static_cast<s32>(violation.fault);
        outcome->line = violation.line;
        std::snprintf(outcome->text, sizeof outcome->text, "%s", violation.what());
    }
}

SparseBytes* ptx_sparse_new() { return new SparseBytes; }
void ptx_sparse_delete(SparseBytes* bytes) { delete bytes; }
void ptx_sparse_forget_stores(SparseBytes* bytes) { bytes->forget_stores(); }
u64 ptx_sparse_stored(const SparseBytes* bytes) { return bytes->count(); }

void ptx_sparse_write(SparseBytes* bytes, u64 address, const u8* from, u64 size) {
    for (u64 i = 0; i < size; ++i) bytes->store(address + i, from[i]);
    bytes->forget_stores();
}

// The bytes at `count` addresses, and whether each was stored by a launch.
void ptx_sparse_read(const SparseBytes* bytes, const u64* addresses, u64 count, u8* to, u8* stored) {
    for (u64 i = 0; i < count; ++i) {
        to[i] = bytes->load(addresses[i]);
        stored[i] = bytes->stored(addresses[i]);
    }
}

u64 ptx_sizes() { return sizeof(Request) << 32 | sizeof(Facts) << 16 | sizeof(Buffer); }
}
