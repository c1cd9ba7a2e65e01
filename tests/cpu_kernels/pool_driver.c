// Runs the pool in one of several ways: pool_driver WAY CPUS [NUMBER]. CPUS: how many the process pretends to have; 0: those it has.
// Exit status 0: all went well. The pool is included, so that threads and CPUs can be faked.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int pretended_cpus;  // what Python sets and calls is not static
static int failing_threads, created_threads, sleepy_threads;

static _Noreturn void *never(void *argument) {
    (void)argument;
    for (;;) pause();
}

static int create_helper(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    if (__atomic_fetch_sub(&failing_threads, 1, __ATOMIC_SEQ_CST) > 0) return 11;
    __atomic_fetch_add(&created_threads, 1, __ATOMIC_SEQ_CST);
    return pthread_create(thread, attributes, sleepy_threads ? never : body, argument);
}

static int pretend_affinity(pid_t process, size_t bytes, cpu_set_t *set) {
    if (!pretended_cpus) return sched_getaffinity(process, bytes, set);
    CPU_ZERO_S(bytes, set);
    for (int cpu = 0; cpu < pretended_cpus; cpu++) CPU_SET_S((size_t)cpu, bytes, set);
    return 0;
}

#define pthread_create create_helper
#define sched_getaffinity pretend_affinity
#include "pool.c"
#undef pthread_create
#undef sched_getaffinity

#define CHECK(truth) ((truth) ? (void)0 : wrong(#truth, __LINE__))
static void wrong(const char *truth, int line) {
    fprintf(stderr, "line %d: not %s\n", line, truth);
    _exit(1);
}

// SECONDS: when to give up.
static unsigned limit(void) { return getenv("SECONDS") ? (unsigned)atoi(getenv("SECONDS")) : 60; }

static void doze(long microseconds) { nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL); }

// Parts that count themselves in ordinary memory of the caller: two threads in one part, or a caller that reads too early, are a race.
enum { PARTS = 64, GOOD = 0x600d };
typedef struct {
    int state, nested;
    int done[PARTS];
} counted;

static void count(void *job, int64_t part) {
    counted *mine = job;
    CHECK(mine->state == GOOD);
    mine->done[part]++;
    if (part % 16 == 3 && !mine->nested) {
        counted inner = {.state = GOOD, .nested = 1};
        pool_run(count, &inner, 2, 2);
        CHECK(inner.done[0] == 1 && inner.done[1] == 1);
    }
    for (volatile int k = 0; k < 200; k++) {}
}

static void one_call(unsigned *seed) {
    counted mine = {.state = GOOD};
    int parts = rand_r(seed) % (PARTS + 1);
    pool_run(count, &mine, parts, rand_r(seed) % 10);
    for (int part = 0; part < PARTS; part++) CHECK(mine.done[part] == (part < parts));
    mine.state = 0;  // who comes late sees it
    if (rand_r(seed) % 8 == 0) doze(rand_r(seed) % 100);  // long enough that helpers fall asleep
}

long calls = 200;

void *caller(void *number) {
    unsigned seed = (unsigned)(size_t)number;
    for (long k = 0; k < calls; k++) one_call(&seed);
    return NULL;
}

static void storm(size_t callers) {
    pthread_t threads[16];
    for (size_t k = 0; k < callers; k++) CHECK(!pthread_create(&threads[k], NULL, caller, (void *)(k + 1)));
    for (size_t k = 0; k < callers; k++) CHECK(!pthread_join(threads[k], NULL));
}

// Two parts that wait for each other: only two threads can do them.
typedef struct {
    int arrived[2], unmasked;
    char name[2][16];
} meeting;

static void meet(void *job, int64_t part) {
    meeting *mine = job;
    pthread_getname_np(pthread_self(), mine->name[part], 16);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    const int helps = strncmp(mine->name[part], "dmlgather-", 10) == 0;
    if (helps)
        mine->unmasked = !sigismember(&mask, SIGINT) || !sigismember(&mask, SIGTERM) || sigismember(&mask, SIGSEGV);
    __atomic_store_n(&mine->arrived[part], 1, __ATOMIC_SEQ_CST);
    for (int k = 0; k < 100000 && !__atomic_load_n(&mine->arrived[!part], __ATOMIC_SEQ_CST); k++) doze(100);
    CHECK(__atomic_load_n(&mine->arrived[!part], __ATOMIC_SEQ_CST));
    if (helps) doze(2000);  // so that the caller has to sleep until the helper is done
}

void meetings(int times) {
    for (int k = 0; k < times; k++) {
        meeting mine = {0};
        pool_run(meet, &mine, 2, 2);
        CHECK(strncmp(mine.name[0], "dmlgather-", 10) == 0 || strncmp(mine.name[1], "dmlgather-", 10) == 0);
        CHECK(!mine.unmasked);
        doze(k % 3 * 300);
    }
}

static void forks(int times) {
    pthread_t threads[4];
    calls = 1L << 40;
    for (size_t k = 0; k < 4; k++) CHECK(!pthread_create(&threads[k], NULL, caller, (void *)(k + 1)));
    doze(5000);
    for (int k = 0; k < times; k++) {
        doze(2000);
        pid_t child = fork();
        if (child == 0) {
            alarm(limit());
            calls = 20;
            meetings(2);
            storm(2);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    exit(0);  // while the callers go on
}

int main(int arguments, char **words) {
    const char *way = arguments > 2 ? words[1] : "";
    pretended_cpus = arguments > 2 ? atoi(words[2]) : 0;
    int number = arguments > 3 ? atoi(words[3]) : 0;
    alarm(limit());
    if (!strcmp(way, "cpus")) printf("%d\n", pool_cpus());
    else if (!strcmp(way, "storm")) storm((size_t)number);
    else if (!strcmp(way, "meet")) meetings(number);
    else if (!strcmp(way, "forks")) forks(number);
    else if (!strcmp(way, "created")) {  // how many threads a storm creates
        storm(8);
        printf("%d\n", created_threads);
    } else if (!strcmp(way, "failing")) {  // the system gives no threads to the first calls
        failing_threads = number;
        for (unsigned k = 0, seed = 1; k < 100; k++) one_call(&seed);
        failing_threads = 0;
        meetings(3);
    } else if (!strcmp(way, "late")) {  // helpers that never start
        sleepy_threads = 1;
        storm(4);
        CHECK(created_threads == pretended_cpus - 1);
    } else return 2;
    return 0;
}
