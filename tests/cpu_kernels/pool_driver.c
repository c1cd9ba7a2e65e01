// Runs the pool in one of several ways: pool_driver WAY CPUS [NUMBER]. CPUS: how many the process pretends to have; 0: those it has.
// Exit status 0: all went well. The pool is included, so that threads and CPUs can be faked, and a thread can be held where it waits for
// another or is about to change what both see.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int pretended_cpus;  // what Python sets and calls is not static
static int failing_threads, created_threads, sleepy_threads;

#define CHECK(truth) ((truth) ? (void)0 : wrong(#truth, __LINE__))
static void wrong(const char *truth, int line) {
    fprintf(stderr, "line %d: not %s\n", line, truth);
    _exit(1);
}

static void doze(long microseconds) { nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL); }
#define UNTIL(truth) while (!(truth)) doze(100)

// What holds helpers and tells where threads are.
static _Thread_local int helps;
static atomic_int held;              // whether helpers wait before they exchange a state
static atomic_int holding;           // how many do
static atomic_int sleeping[2];       // how often a thread began to sleep: callers, helpers
static atomic_int signals;           // how many were sent
static atomic_int arrived;           // at two_are_here

static void hold(void) {
    if (!helps || !held) return;
    holding++;
    UNTIL(!held);
}

// Where broken code has two threads at once: each goes on when both are here.
__attribute__((unused)) static void two_are_here(void) {
    const int round = arrived++ / 2;
    UNTIL(arrived >= 2 * round + 2);
}

static int noted_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    sleeping[helps]++;
    return pthread_cond_wait(condition, mutex);
}

static int noted_signal(pthread_cond_t *condition) {
    signals++;
    return pthread_cond_signal(condition);
}

static _Noreturn void *never(void *argument) {
    (void)argument;
    for (;;) pause();
}

static void *(*helper_body)(void *);
static void *help(void *argument) {
    helps = 1;
    return __atomic_load_n(&helper_body, __ATOMIC_SEQ_CST)(argument);
}

static int create_helper(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    if (__atomic_fetch_sub(&failing_threads, 1, __ATOMIC_SEQ_CST) > 0) return 11;
    __atomic_fetch_add(&created_threads, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&helper_body, body, __ATOMIC_SEQ_CST);
    return pthread_create(thread, attributes, sleepy_threads ? never : help, argument);
}

static int pretend_affinity(pid_t process, size_t bytes, cpu_set_t *set) {
    if (!pretended_cpus) return sched_getaffinity(process, bytes, set);
    CPU_ZERO_S(bytes, set);
    for (int cpu = 0; cpu < pretended_cpus; cpu++) CPU_SET_S((size_t)cpu, bytes, set);
    return 0;
}

#define pthread_create create_helper
#define pthread_cond_wait noted_wait
#define pthread_cond_signal noted_signal
#define sched_getaffinity pretend_affinity
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#define atomic_exchange(object, value) (hold(), atomic_exchange_explicit(object, value, memory_order_seq_cst))
#define atomic_compare_exchange_strong(object, expected, value) \
    (hold(), atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))
#include "pool.c"
#undef pthread_create
#undef pthread_cond_wait
#undef pthread_cond_signal
#undef sched_getaffinity

// SECONDS: when to give up.
static unsigned limit(void) { return getenv("SECONDS") ? (unsigned)atoi(getenv("SECONDS")) : 60; }

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
    UNTIL(__atomic_load_n(&mine->arrived[!part], __ATOMIC_SEQ_CST));
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

// ---- Ways that hold a thread where a fault would be ------------------------------------------------------------------------------------

static void count_parts(int parts) {  // in a call that two threads may execute
    counted mine = {.state = GOOD};
    pool_run(count, &mine, parts, 2);
    for (int part = 0; part < PARTS; part++) CHECK(mine.done[part] == (part < parts));
}

// Two parts, one of the caller's and one of a helper's: each begins when both have. The helper's goes on until `ends`.
static struct {
    atomic_int begun, returned;
    int (*ends)(void);
} both;

static void begin_both(void *job, int64_t part) {
    (void)job, (void)part;
    int (*const ends)(void) = helps ? both.ends : NULL;
    both.begun++;
    UNTIL(both.begun == 2);
    if (ends) UNTIL(ends() || both.returned);
    CHECK(!both.returned);  // the caller waits for all parts
}

static void *call_both(void *nothing) {
    both.begun = 0;
    both.returned = 0;
    pool_run(begin_both, NULL, 2, 2);
    both.returned = 1;
    return nothing;
}

static pthread_t call_meanwhile(int (*ends)(void)) {
    pthread_t other;
    both.ends = ends;
    CHECK(!pthread_create(&other, NULL, call_both, NULL));
    UNTIL(both.begun == 2);
    both.ends = NULL;
    return other;
}

static int caller_sleeps(void) { return sleeping[0] > 0; }
static int helper_sleeps(void) { return sleeping[1] > 0; }
static atomic_int let_go;
static int is_let_go(void) { return let_go; }

// The caller has to sleep until the helper is done, and is woken.
static void awaited(void) {
    const pthread_t other = call_meanwhile(caller_sleeps);
    UNTIL(helper_sleeps());
    CHECK(signals == 1);
    CHECK(!pthread_join(other, NULL));
}

// A helper accepts when the call that invited it is over: it must find the offer taken back. Its caller does not sleep.
static void until_held(void *job, int64_t part) {
    (void)job, (void)part;
    UNTIL(holding);
}
static void accept_too_late(void) {
    held = 1;
    pool_run(until_held, NULL, 2, 2);
    held = 0;
    UNTIL(helper_sleeps());
}

// A helper sleeps when it is invited, and is woken.
static void woken(void) {
    accept_too_late();
    CHECK(signals == 0);
    count_parts(2);
    CHECK(signals > 0);
}

// A helper works for one call while another one begins and ends, which gets none.
static void taken(void) {
    const pthread_t other = call_meanwhile(is_let_go);
    call *const owner = atomic_load(&helpers[0].call);
    count_parts(2);
    CHECK(atomic_load(&helpers[0].call) == owner && created_threads == 1);
    let_go = 1;
    CHECK(!pthread_join(other, NULL));
}

static void is_created(void *before, int64_t part) {  // helpers are invited before the caller takes a part
    (void)part;
    CHECK(__atomic_load_n(&created_threads, __ATOMIC_SEQ_CST) > *(int *)before);
}
static void call_with_new_helper(void) {
    int before = created_threads;
    pool_run(is_created, &before, 2, 2);
    call_both(NULL);
}

// A fork while a helper works for another thread: the child has no helper, and starts one.
static void fork_within(void) {
    const pthread_t other = call_meanwhile(is_let_go);
    const pid_t child = fork();
    if (child == 0) {
        alarm(limit());
        call_with_new_helper();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    let_go = 1;
    CHECK(!pthread_join(other, NULL));
}

// The system gives no thread to one call, and one to the next.
static void one_failure(void) {
    failing_threads = 1;
    count_parts(2);
    call_with_new_helper();
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
    else if (!strcmp(way, "both")) count_parts(number);
    else if (!strcmp(way, "awaited")) awaited();
    else if (!strcmp(way, "woken")) woken();
    else if (!strcmp(way, "too late")) accept_too_late(), call_both(NULL);
    else if (!strcmp(way, "taken")) taken();
    else if (!strcmp(way, "fork within")) fork_within();
    else if (!strcmp(way, "one failure")) one_failure();
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
