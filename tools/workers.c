/* tools/workers.c - shares units of work among several processes, so that a crash of a planner is reported
 * and does not end the tool.
 *
 * Each worker takes the next unit off a counter in shared memory, and writes its number into a pipe of its
 * own when it is done. A worker that dies is known by the end of its pipe. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/progress.h"
#include "tools/verify.h"

#define NO_UNIT UINT32_MAX
#define TICK_MS 200

typedef struct shared {
    _Atomic uint32_t next; /* the first unit that nobody has taken */
    uint32_t doing[];      /* by worker */
} shared;

typedef struct crew {
    const tool_work *work;
    uint32_t jobs;
    shared *common;
    struct pollfd *pipes; /* fd -1: no such worker any more */
    pid_t *pids;
} crew;

_Noreturn static void work_on(const crew *c, uint32_t worker, int pipe) {
    for (;;) {
        uint32_t unit = atomic_fetch_add(&c->common->next, 1);
        if (unit >= c->work->units)
            _exit(0);
        c->common->doing[worker] = unit;
        c->work->run(c->work->arg, unit);
        c->common->doing[worker] = NO_UNIT;
        if (write(pipe, &unit, sizeof unit) != sizeof unit)
            _exit(1);
    }
}

static bool hire(crew *c, uint32_t worker) {
    int ends[2];
    if (pipe(ends) != 0) {
        cli_complain("no pipe: %s", strerror(errno));
        return false;
    }
    c->common->doing[worker] = NO_UNIT;
    fflush(NULL); /* else the child would also write the contents of our buffers */
    c->pids[worker] = fork();
    if (c->pids[worker] == 0) {
        close(ends[0]);
        work_on(c, worker, ends[1]);
    }
    close(ends[1]);
    if (c->pids[worker] < 0) {
        cli_complain("no process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    c->pipes[worker] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    return true;
}

/* Handles the end of a worker, which is known by the end of its pipe. */
static bool bury(crew *c, uint32_t worker) {
    int how = 0;
    close(c->pipes[worker].fd);
    c->pipes[worker].fd = -1;
    if (waitpid(c->pids[worker], &how, 0) < 0) {
        cli_complain("a worker was lost: %s", strerror(errno));
        return false;
    }
    uint32_t unit = c->common->doing[worker];
    if (unit == NO_UNIT)
        return true;
    c->work->done(c->work->arg, unit, WIFSIGNALED(how) ? WTERMSIG(how) : SIGABRT);
    return hire(c, worker);
}

static bool hear(crew *c, uint32_t worker) {
    uint32_t unit;
    ssize_t got = read(c->pipes[worker].fd, &unit, sizeof unit);
    if (got == (ssize_t)sizeof unit) {
        c->work->done(c->work->arg, unit, 0);
        return true;
    }
    return bury(c, worker); /* end of the pipe: a unit's number is always written whole */
}

static bool supervise(crew *c) {
    for (;;) {
        uint32_t alive = 0;
        for (uint32_t w = 0; w < c->jobs; w++)
            alive += c->pipes[w].fd >= 0;
        if (alive == 0)
            return true;
        cli_progress_add(0); /* time passes also in a long unit */
        if (poll(c->pipes, c->jobs, TICK_MS) < 0 && errno != EINTR) {
            cli_complain("poll: %s", strerror(errno));
            return false;
        }
        for (uint32_t w = 0; w < c->jobs; w++)
            if (c->pipes[w].fd >= 0 && c->pipes[w].revents != 0 && !hear(c, w))
                return false;
    }
}

bool tool_run_work(const tool_work *work, uint32_t jobs) {
    const size_t bytes = sizeof(shared) + jobs * sizeof(uint32_t);
    crew c = {.work = work, .jobs = jobs < work->units ? jobs : work->units};
    bool good = true;
    if (work->units == 0)
        return true;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    c.pipes = calloc(c.jobs, sizeof *c.pipes);
    c.pids = calloc(c.jobs, sizeof *c.pids);
    if (memory == MAP_FAILED || !c.pipes || !c.pids) {
        cli_complain("out of memory for %u processes", jobs);
        good = false;
    } else {
        c.common = memory;
        for (uint32_t w = 0; w < c.jobs; w++)
            c.pipes[w].fd = -1;
        for (uint32_t w = 0; w < c.jobs && good; w++)
            good = hire(&c, w);
        good = good && supervise(&c);
        /* Reached early only after an error: workers that still run then fail to write to their closed
         * pipes. */
        for (uint32_t w = 0; w < c.jobs; w++)
            if (c.pipes[w].fd >= 0)
                close(c.pipes[w].fd);
    }
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    free(c.pids);
    free(c.pipes);
    return good;
}
