// The C interface of the CPU engine: it executes one canonical plan (dmlgather/plan/index_plan.py) on host memory.
#pragma once

#include <stdint.h>

#ifdef _WIN32
#define DMLGATHER_API __declspec(dllexport)
#else
#define DMLGATHER_API __attribute__((visibility("default")))
#endif

// It changes with the words of a plan, and with the functions below.
enum { INTERFACE = 2 };
DMLGATHER_API int64_t dmlgather_interface(void);

// A plan as 64-bit words: this head, then rank words each of shape, out_strides and in_strides, then for each lookup index_offset,
// limit, wrap, in_stride and rank words of index_strides. Strides, offsets and extents count elements, as in the plan.
typedef struct {
    int64_t rank, lookups;
    int64_t element_bytes;              // 1, 2, 4, 8 or 16
    int64_t index_bytes, index_signed;  // 0 and 0 without lookups
    int64_t policy;                     // enum policy
    int64_t in_extent, index_extent, out_extent;
    int64_t in_offset, out_offset;
    int64_t fill[2];                    // under FILL, the bytes of the fill value in memory order; else 0
    int64_t threads;                    // most threads; 0: as many as the process may use
    int64_t block_units;                // for tests: units of a block; 0: the engine's choice
    int64_t loops;                      // for tests: the instruction set, enum isa; 0: the best one of this machine
} plan_head;

enum policy { CLAMP, FILL, RAISE, PROMISE };
enum isa { BEST, BASELINE, AVX2, AVX512, NEON };

typedef struct program program;

// Returns an immutable program for the plan of `words` words. Any number of threads may run it at once. Returns NULL if memory is
// exhausted, if fields contradict each other, or if an address is outside of its extent.
DMLGATHER_API program *dmlgather_prepare(const int64_t *plan, int64_t words);
DMLGATHER_API void dmlgather_free(program *);

// Executes the program on the first elements of the extents; `indices` is NULL without lookups. Returns -1. If an index is bad under RAISE,
// returns the smallest offset of a bad index, in elements; the output is then incomplete.
DMLGATHER_API int64_t dmlgather_run(const program *, const void *data, const void *indices, void *out);

// Arguments of dmlgather_run in one struct, for a call that passes one pointer.
typedef struct {
    const program *program;
    const void *data, *indices;
    void *out;
} bound_call;
DMLGATHER_API int64_t dmlgather_run_bound(const bound_call *);

// The fast path: runs a program on NumPy's array objects, inputs first. Python calls this function (METH_FASTCALL); `self` is a bytes
// object that holds a fast_path. It releases the interpreter lock unless the call is small. It returns False if the slow path must run the
// call: for arrays of other forms, a read-only output, an output that may overlap an input, and a bad index. Else it returns True.
typedef struct {
    const void *element_type;    // the array's descr
    int64_t rank, start, bytes;  // start: from the array's pointer to its lowest element; bytes: from there to the end of the last one
    int64_t steps[];             // sizes, then strides
} array_form;
typedef struct {
    const program *program;
    int64_t small, count;  // count: number of arrays, at most three
    int64_t forms[];       // an array_form for each array
} fast_path;
DMLGATHER_API void *dmlgather_call(void *self, void *const *arrays, intptr_t count);

// Functions of Python's C API, and the type numpy.ndarray. They are set once, before the first call.
typedef struct {
    const void *array_type;
    const char *(*bytes_of)(void *);  // PyBytes_AsString
    void *(*truth)(long);             // PyBool_FromLong
    void *(*unlock)(void);            // PyEval_SaveThread
    void (*lock)(void *);             // PyEval_RestoreThread
} python_functions;
DMLGATHER_API void dmlgather_use(const python_functions *);

// Returns a line about the inner loop, units, blocks and threads. It is valid as long as the program.
DMLGATHER_API const char *dmlgather_describe(const program *);

// Returns the digest of the sources, which the build hook passes to the compiler.
DMLGATHER_API const char *dmlgather_sources(void);
