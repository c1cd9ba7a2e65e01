// Modules, kernels and launches.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "driver.h"

u64 launches = 0;

namespace {

constexpr u32 DEFAULT_SHARED = 48 * 1024, MOST_SHARED = 227 * 1024;
constexpr u32 MOST_BLOCKS[] = {2147483647, 65535, 65535}, MOST_THREADS[] = {1024, 1024, 64}, MOST_IN_BLOCK = 1024;

struct Module;
struct Function {
    Module* module;
    Kernel* kernel;
    u32 most_dynamic;  // bytes of shared memory that a launch may ask for
};
struct Module {
    Device* device;
    Program program;
    std::map<std::string, Function, std::less<>> functions;
};

std::set<Module*>& modules = *new std::set<Module*>;
std::set<Function*>& functions = *new std::set<Function*>;

// The memory that kernels on a device may access: its own, the host's pinned one, and that of its peers.
class DeviceMemory : public Memory {
public:
    explicit DeviceMemory(int device) : device(device) {}

    const Buffer* find(u64 address) override {
        const Allocation* const found = allocations.find(address);
        return found && allowed(*found) ? &found->buffer : nullptr;
    }

    std::string near(u64 address) override {
        const Allocation* const found = allocations.find(address);
        const std::string why = found && !allowed(*found) ? " without peer access from device " + std::to_string(device) : "";
        return allocations.near(address) + why;
    }

private:
    bool allowed(const Allocation& allocation) const {
        return allocation.kind != Kind::Device || allocation.device == device || peer_access(device, allocation.device);
    }

    int device;
};

Module& module_of(void* handle) {
    const auto module = static_cast<Module*>(handle);
    if (!modules.contains(module)) fail(INVALID_HANDLE, "no module %p", handle);
    return *module;
}

Function& function_of(void* handle) {
    const auto function = static_cast<Function*>(handle);
    if (!functions.contains(function)) fail(INVALID_HANDLE, "no function %p", handle);
    return *function;
}

void check_version(const char* text) {
    int major = 0, minor = 0;
    const char* const found = std::strstr(text, ".version ");
    if (found && std::sscanf(found, ".version %d.%d", &major, &minor) == 2 && major > settings.newest_ptx) {
        fail(UNSUPPORTED_PTX_VERSION, "PTX %d.%d is newer than the driver (CUDA %d.%d)", major, minor, settings.version / 1000,
             settings.version % 1000 / 10);
    }
}

void* load_module(const char* image) {
    Device& here = current_device();
    forbid_in_captures("a module is loaded");
    if (std::strspn(image, "\t\n\r ./") == 0) {
        fail(INVALID_IMAGE,
             "a module of machine code: the interpreter takes PTX alone (CUPY_COMPILE_WITH_PTX=1, CUPY_ACCELERATORS=)");
    }
    check_version(image);
    const auto module = new Module{.device = &here, .program = {}, .functions = {}};
    try {
        module->program = parse(image, [&](u64 size) { return allocations.allocate(size, here.number, Kind::Variable); });
    } catch (const ParseError& error) {
        if (settings.dump) {
            if (std::FILE* const file = std::fopen(settings.dump, "w")) {
                std::fputs(image, file);
                std::fclose(file);
            }
        }
        delete module;
        fail(INVALID_PTX, "%s", error.what());
    }
    for (const auto& [_, variable] : module->program.variables) {
        std::memcpy(allocations.bytes(variable.address, variable.size, "a variable is"), variable.content.data(), variable.size);
    }
    for (auto& [name, kernel] : module->program.kernels) {
        const u32 left = DEFAULT_SHARED - std::min(kernel.static_shared, DEFAULT_SHARED);
        functions.insert(&(module->functions[name] = {module, &kernel, left}));
    }
    modules.insert(module);
    return module;
}

// What is launched later, or is in a graph, may still name its kernels, so the module itself stays.
void unload(Module& module) {
    forbid_in_captures("a module is unloaded");
    run_all(module.device);
    for (auto& [_, function] : module.functions) functions.erase(&function);
    for (const auto& [_, variable] : module.program.variables) allocations.release(variable.address, false);
    modules.erase(&module);
}

int attribute(const Function& function, int which) {
    switch (which) {
        case 0: return static_cast<int>(function.kernel->most_threads);
        case 1: return static_cast<int>(function.kernel->static_shared);
        case 3: return static_cast<int>(function.kernel->local_bytes);
        case 4: return 16;  // registers: the interpreter knows none of a GPU's
        case 5:
        case 6: return settings.compute_capability;  // of the PTX and of the machine code
        case 8: return static_cast<int>(function.most_dynamic);
        case 9: return -1;  // no preference for shared memory
        default: return 0;
    }
}

void set_attribute(Function& function, int which, int value) {
    if (which != 8) return;
    if (value < 0 || static_cast<u32>(value) + function.kernel->static_shared > MOST_SHARED) {
        fail(INVALID_VALUE, "%s: %d bytes of dynamic shared memory are asked for; a block has %u", function.kernel->name.c_str(),
             value, MOST_SHARED);
    }
    function.most_dynamic = static_cast<u32>(value);
}

struct Shape {
    u32 grid[3], block[3], shared;
};

void check_shape(const Function& function, const Shape& shape) {
    const Kernel& kernel = *function.kernel;
    const u64 threads = u64{shape.block[0]} * shape.block[1] * shape.block[2];
    bool fits = threads && threads <= std::min(kernel.most_threads, MOST_IN_BLOCK);
    for (int i = 0; i < 3; ++i) fits &= shape.grid[i] && shape.grid[i] <= MOST_BLOCKS[i] && shape.block[i] <= MOST_THREADS[i];
    if (!fits) {
        fail(INVALID_VALUE, "%s: a grid of %u, %u, %u and blocks of %u, %u, %u; a block has %u threads at most",
             kernel.name.c_str(), shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
             kernel.most_threads);
    }
    if (shape.shared > function.most_dynamic) {
        fail(INVALID_VALUE, "%s: %u bytes of dynamic shared memory, where %u are allowed", kernel.name.c_str(), shape.shared,
             function.most_dynamic);
    }
}

// The parameters' bytes, from an array of pointers to them or from one buffer.
std::vector<u8> packed(const Kernel& kernel, void** pointers, void** extra) {
    std::vector<u8> bytes(kernel.parameter_bytes);
    if (pointers) {
        for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
            if (!pointers[i]) fail(INVALID_VALUE, "%s: parameter %zu is null", kernel.name.c_str(), i);
            std::memcpy(&bytes[kernel.parameters[i].at], pointers[i], kernel.parameters[i].size);
        }
        return bytes;
    }
    enum : u64 { BUFFER = 1, SIZE = 2 };  // CU_LAUNCH_PARAM_…: a key, and then its value; null ends the list
    const void* buffer = nullptr;
    u64 size = 0;
    for (; extra && *extra; extra += 2) {
        if (reinterpret_cast<u64>(extra[0]) == BUFFER) buffer = extra[1];
        if (reinterpret_cast<u64>(extra[0]) == SIZE) size = *static_cast<const u64*>(extra[1]);
    }
    if (size < bytes.size())
        fail(INVALID_VALUE, "%s: %" PRIu64 " bytes of parameters, where it takes %zu", kernel.name.c_str(), size, bytes.size());
    if (size) std::memcpy(bytes.data(), buffer, bytes.size());
    return bytes;
}

void execute(Kernel& kernel, const Shape& shape, const std::vector<u8>& parameters, int device) {
    ++launches;
    if (settings.null) return;
    DeviceMemory memory(device);
    run({.kernel = kernel,
         .parameters = parameters.data(),
         .grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
         .block = {shape.block[0], shape.block[1], shape.block[2]},
         .dynamic_shared = shape.shared,
         .first_block = 0,
         .last_block = u64{shape.grid[0]} * shape.grid[1] * shape.grid[2],
         .most_instructions = MOST_INSTRUCTIONS,
         .memory = memory,
         .totals = nullptr,
         .copies_unset = true});
}

void launch(void* handle, const Shape& shape, void* stream_handle, void** pointers, void** extra) {
    const Device& here = current_device();
    const Function& function = function_of(handle);
    const StreamPointer stream = stream_of(stream_handle);
    Kernel& kernel = *function.kernel;
    if (function.module->device != &here || stream->device != &here) {
        fail(INVALID_HANDLE, "%s: the kernel is of device %d, the stream of %d, and the thread's device is %d",
             kernel.name.c_str(), function.module->device->number, stream->device->number, here.number);
    }
    check_shape(function, shape);
    enqueue(stream, kernel.name, [&kernel, shape, parameters = packed(kernel, pointers, extra), device = here.number] {
        execute(kernel, shape, parameters, device);
    });
}

}  // namespace

DRIVER(cuModuleLoadData, (void** to, const char* image), *to = load_module(image))
DRIVER(cuModuleUnload, (void* module), unload(module_of(module)))
DRIVER(cuModuleGetFunction, (void** to, void* module, const char* name), {
    auto& all = module_of(module).functions;
    const auto found = all.find(name);
    if (found == all.end()) fail(NOT_FOUND, "no kernel %s", name);
    *to = &found->second;
})
DRIVER(cuModuleGetGlobal_v2, (u64* address, u64* size, void* module, const char* name), {
    const auto& all = module_of(module).program.variables;
    const auto found = all.find(name);
    if (found == all.end()) refuse(NOT_FOUND);
    if (address) *address = found->second.address;
    if (size) *size = found->second.size;
})
DRIVER(cuFuncGetAttribute, (int* to, int which, void* function), *to = attribute(function_of(function), which))
DRIVER(cuFuncSetAttribute, (void* function, int which, int value), set_attribute(function_of(function), which, value))
DRIVER(cuLaunchKernel,
       (void* function, u32 grid_x, u32 grid_y, u32 grid_z, u32 block_x, u32 block_y, u32 block_z, u32 shared, void* stream,
        void** pointers, void** extra),
       launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, pointers, extra))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* to, void* function, int threads, u64), {
    function_of(function);
    *to = threads ? 2048 / threads : 1;
})
DRIVER(cuOccupancyMaxPotentialBlockSize, (int* grid, int* block, void* function, void*, u64, int limit), {
    const u32 most = function_of(function).kernel->most_threads;
    *block = limit ? std::min(static_cast<int>(most), limit) : static_cast<int>(most);
    *grid = 2 * settings.multiprocessors;
})
