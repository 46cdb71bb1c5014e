/* local.c - starts the ranks and waits for them. If one is lost, the library tells the others, and they end
 * by themselves, or are ended after a time limit; if this process is, the kernel ends them all. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include "local.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pace.h"

/* The library takes about a second to tell the others of a loss, once they are in a call. */
#define MOST_GRACE_S 5

typedef struct family {
    pid_t *pids; /* 0: ended */
    uint32_t size, alive;
    double timeout_s; /* of a call */
    double grace_s;   /* from the loss of the first to the end of the last, which is killed then */
    double deadline;  /* clock_now() when the last is killed; 0: none has ended */
    double allowed_s; /* from when that was settled */
    int status;       /* the program's to be: of the first that failed */
    int stopped;      /* the signal that the user ended it by, SIGKILL if it was ended here; 0: neither */
} family;

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    return remove(path);
}

/* Signals to wait for. One that was to be ignored when the program began, as SIGHUP under nohup, stays so. */
static void signals_to_answer(sigset_t *set) {
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction found;
    (void)sigemptyset(set);
    for (size_t i = 0; i < sizeof stop / sizeof stop[0]; i++) {
        if (sigaction(stop[i], NULL, &found) == 0 && found.sa_handler != SIG_IGN) {
            (void)sigaddset(set, stop[i]);
        }
    }
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would never come, and nobody's end be known */
    (void)sigaddset(set, SIGCHLD);
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

static void stop_all(const family *f) {
    for (uint32_t r = 0; r < f->size; r++) {
        if (f->pids[r] > 0) {
            (void)kill(f->pids[r], SIGKILL);
        }
    }
}

static void set_deadline(family *f, double seconds) {
    f->allowed_s = seconds;
    f->deadline = clock_now() + seconds;
}

static void note_end(family *f, uint32_t rank, int how) {
    const pid_t pid = f->pids[rank];
    f->pids[rank] = 0;
    f->alive--;
    if (f->stopped != 0) {
        return;
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == TRAIN_GOOD) {
        /* The last call is of all ranks, so the others are done, or find out by their own time limit. */
        if (f->deadline == 0) {
            set_deadline(f, f->timeout_s + f->grace_s);
        }
        return;
    }
    if (WIFSIGNALED(how)) {
        complain("rank %u (process %d) was killed by signal %d (%s)", rank, (int)pid, WTERMSIG(how),
                 strsignal(WTERMSIG(how)));
    } /* else it has said why itself */
    if (f->status == TRAIN_GOOD) {
        f->status = WIFSIGNALED(how) ? TRAIN_FAILED : WEXITSTATUS(how);
        set_deadline(f, f->grace_s);
    }
}

/* Processes that are no ranks are children of whoever this program was before (exec). */
static void reap(family *f) {
    int how;
    pid_t pid;
    while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
        for (uint32_t r = 0; r < f->size; r++) {
            if (f->pids[r] == pid) {
                note_end(f, r, how);
            }
        }
    }
}

/* Waits for a signal, once a rank was lost until the deadline at most. 0: it has passed. */
static int next_signal(const family *f, const sigset_t *set) {
    if (f->deadline == 0) {
        return sigwaitinfo(set, NULL);
    }
    const double left = fmax(f->deadline - clock_now(), 0), seconds = floor(left);
    const struct timespec limit = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((left - seconds) * 1e9)};
    const int number = sigtimedwait(set, NULL, &limit);
    return number < 0 && errno == EAGAIN ? 0 : number;
}

/* Until all have ended. */
static void wait_for_all(family *f, const sigset_t *set) {
    while (f->alive > 0) {
        const int number = next_signal(f, set);
        if (number == 0) {
            for (uint32_t r = 0; r < f->size; r++) {
                if (f->pids[r] > 0) {
                    complain("rank %u (process %d) has not ended after %g s, and is killed", r,
                             (int)f->pids[r], f->allowed_s);
                }
            }
            stop_all(f);
            f->stopped = SIGKILL; /* how they end now is no news */
            f->status = f->status == TRAIN_GOOD ? TRAIN_FAILED : f->status;
            f->deadline = 0;
        } else if (number > 0 && number != SIGCHLD) {
            f->stopped = number;
            f->deadline = 0;
            f->status = TRAIN_FAILED;
            stop_all(f);
        }
        reap(f);
    }
}

/* The folder that the ranks meet in, if the user gave no store. */
static bool make_folder(char *path, size_t bytes) {
    const char *base = getenv("TMPDIR");
    const int length = snprintf(path, bytes, "%s/train-XXXXXX", base != NULL && *base == '/' ? base : "/tmp");
    if (length < 0 || (size_t)length >= bytes) {
        complain("TMPDIR: is of more than %zu bytes", bytes - sizeof "/train-XXXXXX");
        return false;
    }
    if (mkdtemp(path) == NULL) {
        complain("making a folder for the ranks to meet in, %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

/* False in a child, whose rank is *rank. */
static bool start_all(family *f, uint32_t *rank) {
    for (uint32_t r = 0; r < f->size; r++) {
        const pid_t pid = fork();
        if (pid == 0) {
            *rank = r;
            return false;
        }
        if (pid < 0) {
            complain("starting rank %u: %s", r, strerror(errno));
            f->status = TRAIN_FAILED;
            f->stopped = SIGKILL;
            stop_all(f);
            return true;
        }
        f->pids[r] = pid;
        f->alive++;
    }
    return true;
}

int local_run(const train_options *given, rank_function *run) {
    char folder[1000] = "", store[1100], job[64];
    const pid_t parent = getpid();
    sigset_t set, mask;
    uint32_t rank;
    family f = {.size = given->local,
                .timeout_s = given->timeout_s,
                .grace_s = fmin(given->timeout_s, MOST_GRACE_S),
                .status = TRAIN_GOOD};
    f.pids = calloc(f.size, sizeof *f.pids);
    if (f.pids == NULL) {
        complain("no memory for %u ranks", f.size);
        return TRAIN_FAILED;
    }
    signals_to_answer(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &mask); /* from here on nothing is left behind */
    if (given->store == NULL && !make_folder(folder, sizeof folder)) {
        f.status = TRAIN_FAILED;
        goto end;
    }
    (void)snprintf(store, sizeof store, "file:%s", folder);
    /* One name a run, as the store may be one that others use. */
    (void)snprintf(job, sizeof job, "train-%d-%.0f", (int)parent, 1e6 * clock_now());
    (void)fflush(NULL);
    if (!start_all(&f, &rank)) {
        free(f.pids);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            return TRAIN_FAILED;
        }
        return run_child(given, rank, given->store != NULL ? given->store : store,
                         given->job != NULL ? given->job : job, &mask, run);
    }
    wait_for_all(&f, &set);
    if (folder[0] != '\0') {
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
end:
    free(f.pids);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    if (f.stopped != 0 && f.stopped != SIGKILL) {
        (void)raise(f.stopped); /* so that a shell sees how it ended */
    }
    return f.status;
}
