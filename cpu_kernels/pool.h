// A pool of helper threads that sleep between calls.
#pragma once

#include <stdint.h>

typedef void pool_work(void *job, int64_t part);

// Executes all parts of the job on up to `threads` threads, including the caller. The caller never waits for a helper that has not started.
// Any number of threads may call this function at once.
void pool_run(pool_work *work, void *job, int64_t parts, int threads);

// Returns the number of CPUs that this process may use: at most DMLGATHER_NUM_THREADS, and at least 1.
int pool_cpus(void);
