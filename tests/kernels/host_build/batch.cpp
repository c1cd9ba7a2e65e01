// Runs a file of cases under the sanitizers: batch CASES RESULTS. Buffers have their exact size, so that one byte too far is
// noticed. Prints the number of each case before it runs; the first report of a sanitizer ends the program.
//
// A case: u64 sizes of input, indices and output, their addresses modulo 16, launches; the three buffers; per launch: u64 grid, barrier, bytes of dynamic shared memory, table size, where the
// table holds the input (or ~0); 64 bytes of kernel name; Arguments; the table.
// A result: the output, then the first_bad word.
#include <dlfcn.h>
#include <sanitizer/asan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "arguments.cuh"

typedef void (*Kernel)(Arguments);
extern "C" void host_launch(Kernel kernel, unsigned grid, const Arguments* arguments);
extern "C" void host_launch_with_barrier(Kernel kernel, unsigned grid, const Arguments* arguments, unsigned shared_bytes);

static void read(FILE* file, void* to, u64 bytes) {
    if (bytes && fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "the case file ends early\n");
        exit(3);
    }
}

// Memory that ends where its last byte ends, at an address that leaves `shift` when divided by 16.
struct Buffer {
    char* base;
    char* at;
    u64 bytes;
    Buffer(FILE* file, u64 size, u64 shift) : bytes(size) {
        base = static_cast<char*>(malloc(size + shift));
        at = base + shift;
        read(file, at, size);
        ASAN_POISON_MEMORY_REGION(base, shift & 8);  // AddressSanitizer tells words of 8 bytes apart
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { free(base); }
};

struct Header {
    u64 in, indices, out, in_at, indices_at, out_at, launches;
};

struct LaunchHeader {
    u64 grid, barrier, shared, table, input_in_table;
    char name[64];
};

int main(int count, char** names) {
    FILE* cases = count == 3 ? fopen(names[1], "rb") : nullptr;
    FILE* results = cases ? fopen(names[2], "wb") : nullptr;
    if (!results) {
        fprintf(stderr, "usage: batch CASES RESULTS\n");
        return 2;
    }
    Header header;
    for (int number = 0; fread(&header, sizeof header, 1, cases) == 1; ++number) {
        printf("%d\n", number);
        fflush(stdout);
        Buffer in(cases, header.in, header.in_at), indices(cases, header.indices, header.indices_at);
        Buffer out(cases, header.out, header.out_at);
        u64 first_bad = ~0ull;
        for (u64 launch = 0; launch < header.launches; ++launch) {
            LaunchHeader what;
            Arguments arguments;
            read(cases, &what, sizeof what);
            read(cases, &arguments, sizeof arguments);
            Buffer table(cases, what.table, 0);
            const Kernel kernel = reinterpret_cast<Kernel>(dlsym(RTLD_DEFAULT, what.name));
            if (!kernel) {
                fprintf(stderr, "no kernel %s\n", what.name);
                return 2;
            }
            arguments.in = what.input_in_table == ~0ull ? in.at : table.at + what.input_in_table;
            arguments.indices = indices.at;
            arguments.out = out.at;
            arguments.table = table.at;
            arguments.first_bad = arguments.first_bad ? &first_bad : nullptr;
            const unsigned grid = static_cast<unsigned>(what.grid);
            if (what.barrier) {
                host_launch_with_barrier(kernel, grid, &arguments, static_cast<unsigned>(what.shared));
            } else {
                host_launch(kernel, grid, &arguments);
            }
        }
        fwrite(out.at, 1, out.bytes, results);
        fwrite(&first_bad, sizeof first_bad, 1, results);
    }
    fclose(cases);
    return fclose(results) ? 2 : 0;
}
