/*
 * gcoll/rendezvous/claimant.c - identifies the process that claims a rank, and finds out whether it is alive.
 *
 * A process is identified by its PID, its PID namespace and its start time, as PIDs are used again. On the
 * same host and in the same namespace, the kernel knows for certain whether the process is alive, however
 * busy the machine is.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/text.h"
#include "gcoll/rendezvous/claimant.h"

#define PID_NAMESPACE "/proc/self/ns/pid"
#define STAT_BYTES    1024
#define STAT_FLAGS    7 /* field numbers, counted after the state; the first such field is 2 */
#define STAT_THREADS  18
#define STAT_START    20
#define STAT_SIGNAL   29 /* pending signals of the main thread */
#define PF_EXITING    UINT64_C(4)
#define KILL_BIT      (UINT64_C(1) << (SIGKILL - 1))

/* The fields of /proc/PID/stat that are used here. */
typedef struct process {
    char state;
    uint64_t flags, threads, start, pending;
} process;

/* Reads /proc/PID/stat. False if it cannot be read: the process is gone, or /proc hides other users'
 * processes. */
static bool look_at_process(const char *path, process *found) {
    char text[STAT_BYTES];
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    char *at = strrchr(text, ')'); /* the process name before it may contain any character */
    if (!at || sscanf(at + 1, " %c", &found->state) != 1)
        return false;
    at = strchr(at, ' ');
    at = at ? strchr(at + 1, ' ') : NULL;
    for (int field = 2; at && field <= STAT_SIGNAL; field++) {
        char *end = NULL;
        uint64_t value = strtoull(at, &end, 10); /* some fields are negative, but none of those used here */
        if (end == at)
            return false;
        found->flags = field == STAT_FLAGS ? value : found->flags;
        found->pending = field == STAT_SIGNAL ? value : found->pending;
        found->threads = field == STAT_THREADS ? value : found->threads;
        found->start = field == STAT_START ? value : found->start;
        at = end;
    }
    return at;
}

gcoll_status gcoll_claimant_self(gcoll_claimant *self) {
    char path[64];
    process found = {0};
    struct stat space;
    *self = (gcoll_claimant){.host = gcoll_host_identity(), .pid = (uint64_t)getpid()};
    self->space = stat(PID_NAMESPACE, &space) == 0 ? (uint64_t)space.st_ino : 0;
    /* The main thread's start is the process's. An emulator of another processor (qemu-user) makes up
     * /proc/self/stat, with the start of the process that forked this one: other ranks would find it dead. */
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", (long)getpid());
    self->start = look_at_process(path, &found) ? found.start : 0;
    if (gethostname(self->name, sizeof self->name - 1) != 0 || self->name[0] == '\0')
        snprintf(self->name, sizeof self->name, "unknown");
    gcoll_text_clean(self->name);
    return gcoll_random_bytes(&self->nonce, sizeof self->nonce);
}

void gcoll_claimant_write(const gcoll_claimant *c, char text[GCOLL_CLAIMANT_TEXT]) {
    snprintf(text, GCOLL_CLAIMANT_TEXT,
             "%016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 " %" PRIu64 " %s", c->host,
             c->space, c->pid, c->start, c->nonce, c->waited_ms, c->name);
}

/* Parses one number and the space after it. */
static bool take_number(const char **at, int base, uint64_t *number) {
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    size_t length = strspn(*at, digits);
    if (length == 0 || length > (base == 16 ? 16 : 20) || (*at)[length] != ' ')
        return false;
    errno = 0;
    *number = strtoull(*at, NULL, base);
    *at += length + 1;
    return errno == 0;
}

bool gcoll_claimant_read(const char *text, gcoll_claimant *c) {
    *c = (gcoll_claimant){0};
    if (!take_number(&text, 16, &c->host) || !take_number(&text, 10, &c->space) ||
        !take_number(&text, 10, &c->pid) || !take_number(&text, 10, &c->start) ||
        !take_number(&text, 16, &c->nonce) || !take_number(&text, 10, &c->waited_ms) || text[0] == '\0' ||
        strlen(text) >= sizeof c->name)
        return false;
    snprintf(c->name, sizeof c->name, "%s", text);
    gcoll_text_clean(c->name);
    return c->pid > 0 && c->pid <= INT32_MAX; /* kill takes other numbers for groups */
}

void gcoll_claimant_say(const gcoll_claimant *c, char text[GCOLL_CLAIMANT_SAID]) {
    snprintf(text, GCOLL_CLAIMANT_SAID, "process %" PRIu64 " on host '%s'", c->pid, c->name);
}

int64_t gcoll_claimant_clock_ms(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t gcoll_claimant_age_ms(const gcoll_claimant *self) {
    const long ticks = sysconf(_SC_CLK_TCK); /* a second */
    if (self->start == 0 || ticks <= 0)
        return 0;
    return gcoll_claimant_clock_ms() - (int64_t)(self->start * 1000 / (uint64_t)ticks);
}

static bool is_visible(const gcoll_claimant *a, const gcoll_claimant *b) {
    return a->host == b->host && a->space == b->space && a->space != 0;
}

bool gcoll_claimant_is_process(const gcoll_claimant *a, const gcoll_claimant *b) {
    return is_visible(a, b) && a->pid == b->pid && a->start == b->start;
}

gcoll_life gcoll_claimant_life(const gcoll_claimant *self, const gcoll_claimant *other) {
    char path[48];
    process found = {0};
    if (!is_visible(self, other))
        return GCOLL_LIFE_UNKNOWN;
    if (gcoll_claimant_is_process(self, other))
        return GCOLL_LIFE_ALIVE;
    if (kill((pid_t)other->pid, 0) != 0 && errno == ESRCH)
        return GCOLL_LIFE_DEAD;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", other->pid);
    if (!look_at_process(path,
                         &found)) /* hidden by /proc, or just ended: then the next check finds it dead */
        return GCOLL_LIFE_ALIVE;
    if (other->start != 0 && found.start != other->start)
        return GCOLL_LIFE_DEAD; /* another process has its PID now */
    /* A process whose main thread has ended before the others looks like a zombie, too, but is alive. */
    const bool ended = found.state == 'X' || (found.state == 'Z' && found.threads <= 1);
    return ended ? GCOLL_LIFE_DEAD : GCOLL_LIFE_ALIVE;
}

bool gcoll_claimant_is_ending(const gcoll_claimant *self, const gcoll_claimant *other) {
    char path[48];
    process found = {0};
    if (!is_visible(self, other))
        return false;
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", other->pid);
    return look_at_process(path, &found) && (other->start == 0 || found.start == other->start) &&
           ((found.flags & PF_EXITING) != 0 || (found.pending & KILL_BIT) != 0);
}
