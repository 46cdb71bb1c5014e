/* local.c - starts the ranks and waits for them. If one is lost, the library tells the others, and they end
 * by themselves; if this process is, the kernel ends them all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include "local.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    return remove(path);
}

static void signals_to_answer(sigset_t *set) {
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
}

static int run_child(const train_options *given, uint32_t rank, const char *store, const char *job,
                     const sigset_t *mask, rank_function *run) {
    train_options own = *given;
    own.rank = rank;
    own.store = store;
    own.job = job;
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole group; it is the parent who answers */
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    return run(&own);
}

/* The status that a rank's end gives the program. */
static int status_of(pid_t *pids, uint32_t size, pid_t pid, int how) {
    uint32_t rank = 0;
    while (rank + 1 < size && pids[rank] != pid) {
        rank++;
    }
    pids[rank] = 0;
    if (WIFSIGNALED(how)) {
        complain("rank %u (process %d) was killed by signal %d (%s)", rank, (int)pid, WTERMSIG(how),
                 strsignal(WTERMSIG(how)));
        return TRAIN_FAILED;
    }
    return WEXITSTATUS(how); /* it has said why itself */
}

static void stop_all(const pid_t *pids, uint32_t size) {
    for (uint32_t r = 0; r < size; r++) {
        if (pids[r] > 0) {
            (void)kill(pids[r], SIGKILL);
        }
    }
}

/* Until all have ended. *stopped: the signal by which the user ended it, or 0. */
static int wait_for_all(pid_t *pids, uint32_t size, uint32_t alive, const sigset_t *set, int *stopped) {
    int status = TRAIN_GOOD;
    while (alive > 0) {
        const int number = sigwaitinfo(set, NULL);
        if (number > 0 && number != SIGCHLD) {
            *stopped = number;
            stop_all(pids, size);
        }
        int how;
        pid_t pid;
        while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
            alive--;
            const int ended = *stopped != 0 ? TRAIN_FAILED : status_of(pids, size, pid, how);
            status = status == TRAIN_GOOD ? ended : status;
        }
    }
    return status;
}

/* The folder that the ranks meet in, if the user gave no store. */
static bool make_folder(char *path, size_t bytes) {
    const char *base = getenv("TMPDIR");
    const int length = snprintf(path, bytes, "%s/train-XXXXXX", base != NULL && *base == '/' ? base : "/tmp");
    if (length < 0 || (size_t)length >= bytes || mkdtemp(path) == NULL) {
        complain("making a folder for the ranks to meet in, %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

int local_run(const train_options *given, rank_function *run) {
    char folder[1000] = "", store[1100], job[40];
    const pid_t parent = getpid();
    sigset_t set, mask;
    uint32_t started = 0;
    int stopped = 0, status = TRAIN_FAILED;
    pid_t *pids = calloc(given->local, sizeof *pids);
    signals_to_answer(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &mask); /* from here on nothing is left behind */
    if (pids == NULL || (given->store == NULL && !make_folder(folder, sizeof folder))) {
        goto end;
    }
    (void)snprintf(store, sizeof store, "file:%s", folder);
    (void)snprintf(job, sizeof job, "train-%d", (int)parent);
    (void)fflush(NULL);
    for (; started < given->local; started++) {
        pids[started] = fork();
        if (pids[started] == 0) {
            free(pids);
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
                return TRAIN_FAILED;
            }
            return run_child(given, started, given->store != NULL ? given->store : store, job, &mask, run);
        }
        if (pids[started] < 0) {
            complain("starting rank %u: %s", started, strerror(errno));
            stop_all(pids, started);
            break;
        }
    }
    status = wait_for_all(pids, started, started, &set, &stopped);
    status = started < given->local ? TRAIN_FAILED : status;
end:
    if (folder[0] != '\0') {
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
    free(pids);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    if (stopped != 0) {
        (void)raise(stopped); /* so that a shell sees how it ended */
    }
    return status;
}
