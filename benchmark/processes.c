/*
 * benchmark/processes.c - runs ranks as processes of this machine, with a parent that supervises them.
 *
 * The parent runs no rank. It only waits for signals: a child has ended, or the user wants to stop. When a
 * rank is lost, the other ranks notice it and end; the parent kills those that still run after a grace
 * period. If the parent itself is killed, the kernel ends the children.
 */
#include "benchmark/processes.h"

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

#include "benchmark/clock.h"
#include "tools/cli_value.h"

/* Time from SIGTERM to SIGKILL when the user stops the program. */
#define GRACE_AFTER_STOP_MS 1000

typedef struct family {
    const bench_processes *how;
    pid_t *pids; /* 0: ended */
    uint32_t alive;
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

/* The signals that the parent waits for. It gets SIGPIPE when it complains to a reader that has gone,
 * and goes on, so that it still ends its ranks and removes the folder. A signal that was ignored when the
 * program began, as SIGHUP under nohup, is left out: once blocked, it would be delivered. */
static void signals_of_parent(sigset_t *set) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction found;
    (void)sigemptyset(set);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        if (sigaction(caught[i], NULL, &found) == 0 && found.sa_handler != SIG_IGN)
            (void)sigaddset(set, caught[i]);
    (void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, the end of children would go unnoticed */
    (void)sigaddset(set, SIGCHLD);
}

/* In the child, before anything else. False: the parent has gone. */
static bool become_child(pid_t parent, const sigset_t *old_mask) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        return false;
    /* Ctrl-C reaches the whole process group; only the parent acts on it. */
    (void)signal(SIGINT, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, old_mask, NULL);
    return true;
}

static void signal_all(const family *f, int number) {
    for (uint32_t r = 0; r < f->how->count; r++)
        if (f->pids[r] > 0)
            (void)kill(f->pids[r], number);
}

/* Sets the deadline of the remaining children, unless an earlier one is set. */
static void set_deadline(family *f, int64_t ms) {
    int64_t deadline = bench_now_ns() + ms * 1000000;
    if (f->deadline == 0 || deadline < f->deadline)
        f->deadline = deadline;
}

static void note_end(family *f, uint32_t rank, int how) {
    pid_t pid = f->pids[rank];
    f->pids[rank] = 0;
    f->alive--;
    if (f->stop_signal != 0)
        return;
    if (WIFEXITED(how) && WEXITSTATUS(how) == EXIT_SUCCESS) {
        if (f->how->after_end_ms > 0)
            set_deadline(f, f->how->after_end_ms);
        return;
    }
    if (WIFSIGNALED(how)) {
        cli_complain("rank %u (process %d) was killed by signal %d (%s)", rank, (int)pid, WTERMSIG(how),
                     strsignal(WTERMSIG(how)));
    } else if (WEXITSTATUS(how) != EXIT_FAILURE) {
        cli_complain("rank %u (process %d) ended with status %d", rank, (int)pid, WEXITSTATUS(how));
    } /* else it has said why itself */
    f->status = EXIT_FAILURE;
    set_deadline(f, f->how->after_loss_ms);
}

static void reap(family *f) {
    int how;
    pid_t pid;
    while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
        for (uint32_t r = 0; r < f->how->count; r++)
            if (f->pids[r] == pid)
                note_end(f, r, how);
    }
}

static void kill_rest(family *f) {
    for (uint32_t r = 0; r < f->how->count && f->stop_signal == 0; r++)
        if (f->pids[r] > 0)
            cli_complain("rank %u (process %d) did not end and is killed", r, (int)f->pids[r]);
    f->stop_signal = f->stop_signal != 0 ? f->stop_signal : SIGKILL; /* what follows is no news */
    f->status = EXIT_FAILURE;
    signal_all(f, SIGKILL);
    f->deadline = 0;
}

/* Waits for a signal, at most until the deadline. 0: the deadline has passed. */
static int next_signal(const family *f, const sigset_t *set) {
    if (f->deadline == 0)
        return sigwaitinfo(set, NULL);
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
            f->status = EXIT_FAILURE; /* counts if it is blocked, so that it cannot be handed on */
            signal_all(f, SIGTERM);
            set_deadline(f, GRACE_AFTER_STOP_MS);
        }
        reap(f);
    }
}

/* True in the parent; false in a child, whose rank is *rank. */
static bool start_all(family *f, uint32_t *rank) {
    for (uint32_t r = 0; r < f->how->count; r++) {
        f->started_ns = bench_now_ns();
        pid_t pid = fork();
        if (pid == 0) {
            *rank = r;
            return false;
        }
        if (pid < 0) {
            cli_complain("starting the process of rank %u: %s", r, strerror(errno));
            f->status = EXIT_FAILURE;
            set_deadline(f, 0);
            return true;
        }
        f->pids[r] = pid;
        f->alive++;
    }
    return true;
}

/* Where the folder is made. In memory if possible: some file systems search long for the place of a new file
 * if many were removed a short time ago (ext4 without a journal), and all ranks would wait for that. */
static const char *base_folder(void) {
    const char *base = getenv("TMPDIR");
    if (base && base[0] == '/')
        return base;
    return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* Empty where none is wanted. */
static bool make_folder(const bench_processes *how, char *folder, size_t bytes) {
    folder[0] = '\0';
    if (!how->makes_folder)
        return true;
    int length = snprintf(folder, bytes, "%s/%s-XXXXXX", base_folder(), cli_program);
    if (length < 0 || (size_t)length >= bytes) {
        cli_complain("TMPDIR: is of more than %zu bytes", bytes - strlen(cli_program) - sizeof "/-XXXXXX");
        folder[0] = '\0';
        return false;
    }
    if (!mkdtemp(folder)) {
        cli_complain("making a folder for the ranks to meet in, %s: %s", folder, strerror(errno));
        folder[0] = '\0';
        return false;
    }
    return true;
}

int bench_processes_run(const bench_processes *processes) {
    char folder[1024];
    pid_t parent = getpid();
    family f = {.how = processes, .pids = calloc(processes->count, sizeof(pid_t))};
    sigset_t set;
    sigset_t old_mask;
    if (!f.pids) {
        cli_complain("no memory for %u ranks", processes->count);
        return EXIT_FAILURE;
    }
    signals_of_parent(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &old_mask); /* from here on nothing is left behind */
    if (!make_folder(processes, folder, sizeof folder)) {
        free(f.pids);
        return EXIT_FAILURE;
    }
    (void)fflush(NULL);
    if (processes->limit_ms > 0)
        set_deadline(&f, processes->limit_ms);
    uint32_t rank = 0;
    if (!start_all(&f, &rank)) {
        free(f.pids);
        return become_child(parent, &old_mask)
                   ? processes->run(processes->arg, rank, folder[0] != '\0' ? folder : NULL, f.started_ns)
                   : EXIT_FAILURE;
    }
    look_after(&f, &set);
    if (folder[0] != '\0')
        remove_folder(folder);
    free(f.pids);
    (void)sigprocmask(SIG_SETMASK, &old_mask, NULL);
    if (f.stop_signal != 0 && f.stop_signal != SIGKILL)
        (void)raise(f.stop_signal); /* so that a shell sees how it ended */
    return f.status;
}
