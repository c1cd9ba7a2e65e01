// A libcuda.so.1 that writes down what it is asked: CuPy finds the driver's functions by this name when it first calls one.

#include <cstdint>
#include <cstring>

extern "C" {

using Handle = void*;

std::uint64_t launched[11];
std::uint64_t launches;

int cuLaunchKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters, void** extra) {
    const std::uint64_t arguments[] = {
        reinterpret_cast<std::uint64_t>(function), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
        reinterpret_cast<std::uint64_t>(stream), reinterpret_cast<std::uint64_t>(parameters),
        reinterpret_cast<std::uint64_t>(extra),
    };
    std::memcpy(launched, arguments, sizeof launched);
    ++launches;
    return 0;
}

}  // extern "C"
