// Puts our functions in the place of the CUDA runtime's.
// CuPy's wheels contain NVIDIA's static runtime, which works with NVIDIA's own driver alone: it asks the driver for a proof of
// identity. That is not forged. Instead, when CuPy's module with the runtime has been loaded, each function in its table of
// symbols that has a replacement here is made to begin with a jump there, in memory. No file is changed.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

int runtime_major = 0;

namespace {

constexpr u64 PAGE = 4096;

std::map<std::string_view, void*>& replacements() {
    static auto& all = *new std::map<std::string_view, void*>;
    return all;
}

// jmp *0(%rip), and the address that stands there
void jump(u8* at, void* to) {
    u8 code[14] = {0xff, 0x25, 0, 0, 0, 0};
    std::memcpy(code + 6, &to, sizeof to);
    u8* const page = reinterpret_cast<u8*>(reinterpret_cast<u64>(at) / PAGE * PAGE);
    if (mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
        fail(NOT_SUPPORTED, "the runtime cannot be changed in memory");
    std::memcpy(at, code, sizeof code);
    mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC);
}

// Calls use(name, address) for each function of the file's table of symbols, which has the local ones too.
template <class F> void for_functions(const char* path, F use) {
    const int file = open(path, O_RDONLY);
    struct stat info;
    if (file < 0 || fstat(file, &info)) return;
    const std::size_t size = static_cast<std::size_t>(info.st_size);
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    const auto content = static_cast<const u8*>(mapped);
    const auto header = reinterpret_cast<const Elf64_Ehdr*>(content);
    const auto sections = reinterpret_cast<const Elf64_Shdr*>(content + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const auto symbols = reinterpret_cast<const Elf64_Sym*>(content + sections[i].sh_offset);
        const auto names = reinterpret_cast<const char*>(content + sections[sections[i].sh_link].sh_offset);
        for (u64 n = 0; n < sections[i].sh_size / sizeof *symbols; ++n) {
            if (ELF64_ST_TYPE(symbols[n].st_info) == STT_FUNC && symbols[n].st_value)
                use(names + symbols[n].st_name, symbols[n].st_value);
        }
    }
    munmap(mapped, size);
}

void replace_runtime(const link_map* object) {
    int count = 0;
    runtime_major = 13;
    for_functions(object->l_name, [&](std::string_view name, u64 at) {
        if (name == "cudaGetDeviceProperties_v2") runtime_major = 12;  // the older version of this function is gone in CUDA 13
        const auto found = replacements().find(name);
        if (found == replacements().end()) return;
        jump(reinterpret_cast<u8*>(object->l_addr + at), found->second);
        ++count;
    });
    if (settings.trace || !count) say("%d functions of CUDA %d's runtime replaced in %s", count, runtime_major, object->l_name);
}

}  // namespace

Replacement::Replacement(const char* name, void* function) { replacements()[name] = function; }

// Stands before the C library's (LD_PRELOAD).
EXPORTED void* dlopen(const char* path, int flags) {
    static const auto real = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
    const bool is_runtime = path && std::strstr(path, "cupy_backends/cuda/api/runtime.");
    void* const before = is_runtime ? real(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    void* const object = real(path, flags);
    if (is_runtime && object && !before) replace_runtime(static_cast<const link_map*>(object));
    return object;
}
