// Calls share no lock, so no lock is held after a fork. Atomic operations are sequentially consistent, because a part needs few of them.
#define _GNU_SOURCE  // CPU_COUNT_S, pthread_setname_np
#include "pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#define THREAD _Noreturn DWORD WINAPI
#define pthread_mutex_t SRWLOCK
#define pthread_mutex_lock AcquireSRWLockExclusive
#define pthread_mutex_unlock ReleaseSRWLockExclusive
#define PTHREAD_MUTEX_INITIALIZER SRWLOCK_INIT
#define pthread_cond_t CONDITION_VARIABLE
#define pthread_cond_wait(condition, mutex) SleepConditionVariableSRW(condition, mutex, INFINITE, 0)
#define pthread_cond_signal WakeConditionVariable
#define PTHREAD_COND_INITIALIZER CONDITION_VARIABLE_INIT
#else
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#define THREAD _Noreturn void *
#endif

enum { MOST_HELPERS = 1023, SPIN_NS = 20000, STACK_BYTES = 1 << 20, MOST_STRETCHES = 32 };
enum { LINE_BYTES = 128 };  // processors fetch pairs of 64-byte lines

typedef struct {  // consecutive parts for one thread; other threads take some of them after their own parts
    _Alignas(LINE_BYTES) atomic_llong next;  // the first part that no thread has taken
    int64_t end;
} stretch;

typedef struct {  // on the stack of pool_run
    pool_work *work;
    void *job;
    int64_t count;
    stretch stretches[MOST_STRETCHES];
} call;

// State of a helper. The caller changes IDLE to INVITED, and INVITED back to IDLE once no part is left. The helper changes INVITED to
// INSIDE, and INSIDE to IDLE. A waiting thread spins for a short time. Then it sleeps: a helper changes IDLE to ASLEEP before, and a caller
// changes INSIDE to AWAITED. The thread that changes ASLEEP or AWAITED to another state wakes the sleeping thread.
enum { IDLE, INVITED, INSIDE, ASLEEP, AWAITED };

typedef struct {
    _Alignas(LINE_BYTES) _Atomic(call *) call;  // the call to which the helper belongs; NULL: free
    atomic_int state;
    int64_t number;  // of its stretch. The thread of `call` owns this field and the following ones
    int started;
#ifndef _WIN32
    pthread_t thread;
    int elsewhere;  // 1 + the CPU on which the helper may not run; 0: none
#endif
    pthread_mutex_t lock;
    pthread_cond_t changed;
} helper;

static helper helpers[MOST_HELPERS];
static atomic_int most_helpers = -1;  // set by pool_cpus: pool_run must not read the environment, which other threads may change

static uint64_t nanoseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void wait_while(helper *each, int state, int sleeping) {
    for (uint64_t start = nanoseconds(); nanoseconds() - start < SPIN_NS;) {  // unsigned: if the clock is set back, the spin ends
        if (atomic_load(&each->state) != state) return;
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&each->lock);
    if (atomic_compare_exchange_strong(&each->state, &state, sleeping))
        while (atomic_load(&each->state) == sleeping) pthread_cond_wait(&each->changed, &each->lock);
    pthread_mutex_unlock(&each->lock);
}

static void change(helper *each, int state, int sleeping) {
    if (atomic_exchange(&each->state, state) != sleeping) return;
    pthread_mutex_lock(&each->lock);  // the other thread holds the lock until it sleeps, so the signal cannot come too early
    pthread_mutex_unlock(&each->lock);
    pthread_cond_signal(&each->changed);
}

// The same threads take the same parts in the next call, because the data may still be in their caches.
static void take_parts(call *from, int64_t own) {
    for (int64_t k = 0; k < from->count; ++k) {
        stretch *const of = &from->stretches[(own + k) % from->count];
        for (int64_t part; (part = atomic_fetch_add(&of->next, 1)) < of->end;) from->work(from->job, part);
    }
}

static THREAD live(void *self) {
    helper *me = self;
    char name[16];
    snprintf(name, sizeof name, "dmlgather-%d", (int)(me - helpers));
#if defined __APPLE__
    pthread_setname_np(name);
#elif defined __linux__
    pthread_setname_np(pthread_self(), name);
#endif
    for (;;) {
        int invited = INVITED;
        wait_while(me, IDLE, ASLEEP);
        if (!atomic_compare_exchange_strong(&me->state, &invited, INSIDE)) continue;
        take_parts(atomic_load(&me->call), me->number);
        change(me, IDLE, AWAITED);
    }
}

static int start(helper *each) {  // returns 1 if the system has created the helper's thread
    each->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    each->changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    atomic_store(&each->state, INVITED);
#ifdef _WIN32
    HANDLE thread = CreateThread(NULL, STACK_BYTES, live, each, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    return each->started = thread && CloseHandle(thread);
#else
    pthread_attr_t attributes;
    sigset_t blocked, before;
    sigfillset(&blocked);  // Python handles signals in its own threads; only crashes of a helper must be reported
    sigdelset(&blocked, SIGSEGV), sigdelset(&blocked, SIGBUS), sigdelset(&blocked, SIGFPE), sigdelset(&blocked, SIGILL);
    if (pthread_attr_init(&attributes)) return 0;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);  // the helper inherits the mask
    each->started = !pthread_create(&each->thread, &attributes, live, each);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return each->started;
#endif
}

// Linux may wake a helper on the caller's CPU, where it waits for the next tick, for about 4 ms. So exclude this CPU.
static void send_away(helper *each) {
#ifdef __linux__
    const int here = sched_getcpu();
    cpu_set_t sets[16];
    if (here + 1 == each->elsewhere || here < 0 || sched_getaffinity(0, sizeof sets, sets)) return;
    CPU_CLR_S(here, sizeof sets, sets);
    if (CPU_COUNT_S(sizeof sets, sets)) pthread_setaffinity_np(each->thread, sizeof sets, sets);
    each->elsewhere = here + 1;
#else
    (void)each;
#endif
}

void pool_run(pool_work *work, void *job, int64_t parts, int threads) {
    if (atomic_load(&most_helpers) < 0) pool_cpus();
    int64_t wanted = (parts < threads ? parts : threads) - 1, invited = 0;
    call mine;
    mine.work = work, mine.job = job, mine.count = wanted < 1 ? 1 : wanted < MOST_STRETCHES ? wanted + 1 : MOST_STRETCHES;
    for (int64_t k = 0; k < mine.count; ++k) {
        atomic_init(&mine.stretches[k].next, k * parts / mine.count);
        mine.stretches[k].end = (k + 1) * parts / mine.count;
    }
    for (helper *each = helpers; each < helpers + atomic_load(&most_helpers) && invited < wanted; each++) {
        call *none = NULL;
        if (atomic_load(&each->call) || !atomic_compare_exchange_strong(&each->call, &none, &mine)) continue;
        each->number = ++invited;
        if (each->started) send_away(each), change(each, INVITED, ASLEEP);
        else if (!start(each)) wanted = 0;  // no thread will take this invitation; the next call tries again
    }
    take_parts(&mine, 0);
    for (helper *each = helpers; invited > 0; each++) {
        int offered = INVITED;
        if (atomic_load(&each->call) != &mine) continue;
        invited--;
        if (!atomic_compare_exchange_strong(&each->state, &offered, IDLE)) wait_while(each, INSIDE, AWAITED);
        atomic_store(&each->call, NULL);  // last, because the helper may then belong to another call
    }
}

int pool_cpus(void) {
#ifdef _WIN32
    DWORD_PTR mine = 0, all;
    GetProcessAffinityMask(GetCurrentProcess(), &mine, &all);  // mine is 0 for a process in several groups of 64 CPUs
    int cpus = mine ? __builtin_popcountll(mine) : (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
#elif defined __linux__
    cpu_set_t sets[16];  // for 16384 CPUs, twice as many as Linux supports
    int cpus = sched_getaffinity(0, sizeof sets, sets) ? 1 : CPU_COUNT_S(sizeof sets, sets);
#else
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
    const char *text = getenv("DMLGATHER_NUM_THREADS");
    long limit = text && !text[strspn(text, "0123456789")] ? strtol(text, NULL, 10) : 0;
    cpus = limit > 0 && limit < cpus ? (int)limit : cpus > 1 ? cpus : 1;
    atomic_store(&most_helpers, cpus <= MOST_HELPERS ? cpus - 1 : MOST_HELPERS);
    return cpus;
}

#ifndef _WIN32
static void forget(void) {  // the child of a fork has no helpers
    for (helper *each = helpers; each < helpers + MOST_HELPERS; each++)
        if (each->call || each->started) memset(each, 0, sizeof *each);
}
__attribute__((constructor)) static void expect_forks(void) { pthread_atfork(NULL, NULL, forget); }
#endif
