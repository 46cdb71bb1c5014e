/* benchmark/peers/launch.c - ranks as processes of this machine, and an end to all of them. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

/* The parent waits so much longer than its children, who can say what they were doing. */
#define PARENT_GRACE_S 2u

static void out_of_time(int signal_number) {
    (void)signal_number;
    static const char text[] = "a peer's program took longer than --limit and was ended\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(PEER_FAILED);
}

void peer_limit(uint32_t seconds) {
    (void)signal(SIGALRM, out_of_time);
    (void)alarm(seconds);
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    (void)remove(path);
    return 0;
}

static bool make_folder(char *folder, size_t bytes) {
    const char *base = getenv("TMPDIR");
    int length =
        snprintf(folder, bytes, "%s/gcoll_peer-XXXXXX", base != NULL && base[0] == '/' ? base : "/tmp");
    if (length < 0 || (size_t)length >= bytes || mkdtemp(folder) == NULL) {
        cli_complain("making a folder for the ranks to meet in, %s: %s", folder, strerror(errno));
        return false;
    }
    return true;
}

static void kill_all(const pid_t *pids, uint32_t count) {
    for (uint32_t r = 0; r < count; r++) {
        if (pids[r] > 0) {
            (void)kill(pids[r], SIGKILL);
        }
    }
}

/* Waits for all; after the first that fails the others are killed. */
static int wait_for_all(pid_t *pids, uint32_t count) {
    int status = PEER_OK;
    for (uint32_t left = count; left > 0;) {
        int how;
        pid_t pid = wait(&how);
        if (pid < 0) {
            return PEER_FAILED;
        }
        for (uint32_t r = 0; r < count; r++) {
            if (pids[r] != pid) {
                continue;
            }
            pids[r] = 0;
            left--;
            if ((!WIFEXITED(how) || WEXITSTATUS(how) != PEER_OK) && status == PEER_OK) {
                cli_complain("rank %u ended with %s %d", r, WIFEXITED(how) ? "status" : "signal",
                             WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
                status = PEER_FAILED;
                kill_all(pids, count);
            }
        }
    }
    return status;
}

/* Does not return in children. */
static bool start(pid_t *pids, const peer_options *options, peer_rank rank) {
    pid_t parent = getpid();
    for (uint32_t r = 0; r < options->local; r++) {
        pids[r] = fork();
        if (pids[r] < 0) {
            cli_complain("starting rank %u: %s", r, strerror(errno));
            pids[r] = 0;
            return false;
        }
        if (pids[r] == 0) {
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
                _exit(PEER_FAILED);
            }
            peer_options own = *options;
            own.rank = r;
            peer_limit(options->limit_s);
            exit(rank(&own));
        }
    }
    return true;
}

static int launch_local(const peer_options *options, peer_rank rank) {
    char folder[1024] = "";
    peer_options shared = *options;
    pid_t *pids = calloc(options->local, sizeof *pids);
    int status = PEER_FAILED;
    if (pids == NULL || (options->store == NULL && !make_folder(folder, sizeof folder))) {
        free(pids);
        return PEER_FAILED;
    }
    shared.store = options->store != NULL ? options->store : folder;
    if (start(pids, &shared, rank)) {
        status = wait_for_all(pids, options->local);
    } else {
        kill_all(pids, options->local);
        while (wait(NULL) > 0) {
        }
    }
    if (folder[0] != '\0') {
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
    free(pids);
    return status;
}

int peer_launch(const peer_options *options, peer_rank rank) {
    if (options->local > 0) {
        peer_limit(options->limit_s + PARENT_GRACE_S);
        return launch_local(options, rank);
    }
    peer_limit(options->limit_s);
    return rank(options);
}
