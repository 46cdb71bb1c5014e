/*
 * benchmark/launch.c - --local: the ranks are processes of this machine, and this one looks after them.
 *
 * The parent takes part in nothing. It waits for signals only: that a child has ended, or that the user wants
 * to stop. When a rank is lost the others find out by themselves and end, as the library tells them; those
 * that have not after a grace period are killed. If the parent itself is killed, the kernel ends the
 * children.
 */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* From the first rank's loss to the end of the others; the library takes about a second to tell them. */
#define GRACE_AFTER_LOSS_MS 3000
/* From SIGTERM to SIGKILL, when the user has had enough. */
#define GRACE_AFTER_STOP_MS 1000

typedef struct family {
    pid_t *pids; /* 0: ended */
    uint32_t size;
    uint32_t alive;
    int64_t timeout_ms; /* of a call of the library */
    int status;         /* ours to be */
    int stop_signal;    /* the user's; 0: none */
    int64_t started_ns; /* bench_now_ns before the newest child's fork */
    int64_t deadline;   /* bench_now_ns when the rest is killed; 0: none */
} family;

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    (void)remove(path);
    return 0;
}

static void remove_folder(const char *path) {
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* One that was to be ignored when the program began, as SIGHUP under nohup, stays so: blocked, it would come
 * all the same. */
static void signals_of_parent(sigset_t *set) {
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

/* In the child, before anything else. False: the parent has gone. */
static bool become_child(pid_t parent, const sigset_t *old_mask) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        return false;
    }
    /* Ctrl-C reaches the whole group of processes; it is the parent who answers it. */
    (void)signal(SIGINT, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, old_mask, NULL);
    return true;
}

static int run_child(const bench_options *options, FILE *output, const char *url, const char *job,
                     uint32_t rank, int64_t started_ns) {
    gcoll_store *store;
    if (gcoll_store_open(url, bench_timeout_ms(options), &store) != GCOLL_OK) {
        cli_complain("rank %u: %s", rank, gcoll_last_error());
        return BENCH_FAILED;
    }
    bench_rank self = {.options = options,
                       .rank = rank,
                       .store = store,
                       .job = job,
                       .output = output,
                       .started_ns = started_ns};
    int status = bench_run_rank(&self);
    gcoll_store_destroy(store);
    return status;
}

static void signal_all(const family *f, int number) {
    for (uint32_t r = 0; r < f->size; r++) {
        if (f->pids[r] > 0) {
            (void)kill(f->pids[r], number);
        }
    }
}

/* The rest has so long. An earlier deadline stands. */
static void set_deadline(family *f, int64_t ms) {
    int64_t deadline = bench_now_ns() + ms * 1000000;
    if (f->deadline == 0 || deadline < f->deadline) {
        f->deadline = deadline;
    }
}

static void note_end(family *f, uint32_t rank, int how) {
    pid_t pid = f->pids[rank];
    f->pids[rank] = 0;
    f->alive--;
    if (f->stop_signal != 0) {
        return;
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) == BENCH_OK) {
        /* The last call is collective, so the others are done or will hear of it by their own time limit. */
        set_deadline(f, f->timeout_ms + GRACE_AFTER_LOSS_MS);
        return;
    }
    if (WIFSIGNALED(how)) {
        cli_complain("rank %u (process %d) was killed by signal %d (%s)", rank, (int)pid, WTERMSIG(how),
                     strsignal(WTERMSIG(how)));
    } else if (WEXITSTATUS(how) != BENCH_FAILED) {
        cli_complain("rank %u (process %d) ended with status %d", rank, (int)pid, WEXITSTATUS(how));
    } /* else it has said why itself */
    f->status = BENCH_FAILED;
    set_deadline(f, GRACE_AFTER_LOSS_MS);
}

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

static void kill_rest(family *f) {
    for (uint32_t r = 0; r < f->size && f->stop_signal == 0; r++) {
        if (f->pids[r] > 0) {
            cli_complain("rank %u (process %d) did not end and is killed", r, (int)f->pids[r]);
        }
    }
    f->stop_signal = f->stop_signal != 0 ? f->stop_signal : SIGKILL; /* what follows is no news */
    f->status = BENCH_FAILED;
    signal_all(f, SIGKILL);
    f->deadline = 0;
}

/* Waits for a signal, at most until the deadline. 0: the deadline has passed. */
static int next_signal(const family *f, const sigset_t *set) {
    if (f->deadline == 0) {
        return sigwaitinfo(set, NULL);
    }
    int64_t left = f->deadline - bench_now_ns();
    left = left > 0 ? left : 0;
    struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    int number = sigtimedwait(set, NULL, &limit);
    return number < 0 && errno == EAGAIN ? 0 : number;
}

static void look_after(family *f, const sigset_t *set) {
    while (f->alive > 0) {
        int number = next_signal(f, set);
        if (number == 0) {
            kill_rest(f);
        } else if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
            f->stop_signal = number;
            f->status = BENCH_FAILED; /* counts if it is blocked, so that it cannot be handed on */
            signal_all(f, SIGTERM);
            set_deadline(f, GRACE_AFTER_STOP_MS);
        }
        reap(f);
    }
}

/* True in the parent; false in a child, whose rank is *rank. */
static bool start_all(family *f, uint32_t *rank) {
    for (uint32_t r = 0; r < f->size; r++) {
        f->started_ns = bench_now_ns();
        pid_t pid = fork();
        if (pid == 0) {
            *rank = r;
            return false;
        }
        if (pid < 0) {
            cli_complain("starting the process of rank %u: %s", r, strerror(errno));
            f->status = BENCH_FAILED;
            set_deadline(f, 0);
            return true;
        }
        f->pids[r] = pid;
        f->alive++;
    }
    return true;
}

/* A place for the ranks to meet in: the caller's store, or a folder that is made here. */
static bool make_meeting_place(const bench_options *options, char *folder, size_t folder_bytes, char *url,
                               size_t url_bytes) {
    folder[0] = '\0';
    if (options->store != NULL) {
        (void)snprintf(url, url_bytes, "%s", options->store);
        return true;
    }
    const char *base = getenv("TMPDIR");
    int length = snprintf(folder, folder_bytes, "%s/gcoll_bench-XXXXXX",
                          base != NULL && base[0] == '/' ? base : "/tmp");
    if (length < 0 || (size_t)length >= folder_bytes) {
        cli_complain("TMPDIR: is of more than %zu bytes", folder_bytes - sizeof "/gcoll_bench-XXXXXX");
        folder[0] = '\0';
        return false;
    }
    if (mkdtemp(folder) == NULL) {
        cli_complain("making a folder for the ranks to meet in, %s: %s", folder, strerror(errno));
        folder[0] = '\0';
        return false;
    }
    (void)snprintf(url, url_bytes, "file:%s", folder);
    return true;
}

int bench_local_processes(const bench_options *options, FILE *output) {
    char folder[1024];
    char url[1100];
    char job[40];
    pid_t parent = getpid();
    family f = {.pids = calloc(options->local, sizeof(pid_t)),
                .size = options->local,
                .timeout_ms = bench_timeout_ms(options)};
    sigset_t set;
    sigset_t old_mask;
    if (f.pids == NULL) {
        cli_complain("no memory for %u ranks", f.size);
        return BENCH_FAILED;
    }
    signals_of_parent(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &old_mask); /* from here on nothing is left behind */
    if (!make_meeting_place(options, folder, sizeof folder, url, sizeof url)) {
        free(f.pids);
        return BENCH_FAILED;
    }
    /* One name a run, as the store may be one that others use. */
    (void)snprintf(job, sizeof job, "bench-%d-%llx", (int)parent, (unsigned long long)bench_now_ns());
    (void)fflush(NULL);
    uint32_t rank = 0;
    if (!start_all(&f, &rank)) {
        free(f.pids);
        return become_child(parent, &old_mask)
                   ? run_child(options, output, url, options->job != NULL ? options->job : job, rank,
                               f.started_ns)
                   : BENCH_FAILED;
    }
    look_after(&f, &set);
    if (folder[0] != '\0') {
        remove_folder(folder);
    }
    free(f.pids);
    (void)sigprocmask(SIG_SETMASK, &old_mask, NULL);
    if (f.stop_signal != 0 && f.stop_signal != SIGKILL) {
        (void)raise(f.stop_signal); /* so that a shell sees how it ended */
    }
    return f.status;
}
