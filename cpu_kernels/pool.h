// A small pool of threads that sleep between calls.
#pragma once

#include <stdint.h>

typedef void pool_work(void *job, int64_t part);

// Executes parts 0 … parts-1 of the job on up to `threads` threads, the caller's included; returns when all parts are done. The caller
// never waits for a helper that has not started. Any number of threads may call at once.
void pool_run(pool_work *work, void *job, int64_t parts, int threads);

// The number of CPUs that this process may use: its affinity, at most DMLGATHER_NUM_THREADS; at least 1.
int pool_cpus(void);
