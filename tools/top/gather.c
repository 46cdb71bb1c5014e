/*
 * tools/top/gather.c - asks the processes. What they say is checked as a file is: it comes from whoever made
 * the socket.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/hash.h"
#include "tools/cli.h"
#include "tools/top/top.h"
#include "tools/trace/read.h"

#define PROCESSES_MOST 4096
#define ANSWER_MOST    ((size_t)16 << 20)
#define CONTEXTS_MOST  8192 /* of a process */
#define YOUNG_S        5    /* a socket so young may not listen yet */
#define ASKED_AT_ONCE  256
#define OTHER_FILES    16  /* that are open */
#define ANSWER_MS      300 /* to answer in: a thread of the process does nothing else */

/* A process that is asked. */
typedef struct asked {
    uint64_t socket; /* a hash of its path */
    long process;  /* as its file's name says, or better the kernel, where that may be another number here */
    bool is_known; /* as the kernel says */
    unsigned host; /* hash of its name */
    uint32_t rank, size; /* of its first context, as that name says */
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int fd;    /* -1: it has ended its answer, or cannot be asked */
    int error; /* there is no socket to ask with, and why; 0: there was */
    char *text;
    size_t bytes, room;
    bool is_over; /* has sent all */
    bool is_gone; /* there is no such process */
} asked;

/* ---- Who is there -------------------------------------------------------------------------------- */

static void find_process(asked *a) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    a->is_known = getsockopt(a->fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.pid > 0;
    if (a->is_known)
        a->process = who.pid;
}

/* Removes the socket of a process that was killed: one of ours, of this host, that nobody listens at, and
 * that is not just being made. */
static void tidy(const asked *a) {
    char host[256] = "";
    struct stat is;
    struct timespec now;
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    if (a->host == (unsigned)gcoll_hash_text(GCOLL_HASH_START, host) && lstat(a->path, &is) == 0 &&
        S_ISSOCK(is.st_mode) && is.st_uid == geteuid() && now.tv_sec - is.st_mtim.tv_sec >= YOUNG_S)
        unlink(a->path);
}

static void ask(asked *a) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, a->path, sizeof a->path);
    a->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    a->error = a->fd < 0 ? errno : 0;
    if (a->fd < 0)
        return;
    if (connect(a->fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        find_process(a);
        return;
    }
    const int error = errno; /* EAGAIN: too many ask it, whom it does not answer */
    a->is_gone = error == ECONNREFUSED || error == ENOENT || error == EACCES || error == EPERM;
    if (error == ECONNREFUSED)
        tidy(a);
    close(a->fd);
    a->fd = -1;
}

/* The name that a process gives its socket: "4711-0a1b2c3d-77aa-2of4.sock": process, hash of the host,
 * something, rank and size. False: it is another file. */
static bool read_name(const char *name, asked *a) {
    unsigned some;
    int end = 0;
    return sscanf(name, "%19ld-%8x-%4x-%9" SCNu32 "of%9" SCNu32 ".sock%n", &a->process, &a->host, &some,
                  &a->rank, &a->size, &end) == 5 &&
           end > 0 && name[end] == '\0' && a->process > 0 && a->rank < a->size;
}

/* False: the folder cannot be read. */
static bool list(const char *folder, bool is_quiet, asked **all, size_t *count) {
    DIR *directory = opendir(folder);
    *count = 0;
    *all = calloc(PROCESSES_MOST, sizeof **all);
    if (!*all || !directory) {
        const int error = *all ? errno : ENOMEM;
        if (directory)
            closedir(directory);
        if (error == ENOENT)
            return true;
        if (!is_quiet)
            cli_complain("%s: %s", folder, strerror(error));
        return false;
    }
    for (struct dirent *entry; (entry = readdir(directory)) && *count < PROCESSES_MOST;) {
        asked *a = &(*all)[*count];
        if (!read_name(entry->d_name, a) ||
            (size_t)snprintf(a->path, sizeof a->path, "%s/%s", folder, entry->d_name) >= sizeof a->path)
            continue;
        a->socket = gcoll_hash_text(GCOLL_HASH_START, a->path);
        ++*count;
    }
    closedir(directory);
    return true;
}

/* Takes what has come. */
static void take(asked *a) {
    if (a->bytes == a->room && a->room < ANSWER_MOST) {
        const size_t room = a->room ? 2 * a->room : 8192;
        char *more = realloc(a->text, room);
        a->text = more ? more : a->text;
        a->room = more ? room : a->room;
    }
    const ssize_t got = a->bytes < a->room ? recv(a->fd, a->text + a->bytes, a->room - a->bytes, 0) : 0;
    if (got > 0) {
        a->bytes += (size_t)got;
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        a->is_over = true;
        close(a->fd);
        a->fd = -1;
    }
}

static void hear(asked *all, size_t count) {
    struct pollfd *wanted = calloc(count + 1, sizeof *wanted);
    size_t *whose = calloc(count + 1, sizeof *whose); /* place in `all` */
    const int64_t until_ms = gcoll_now_ms() + ANSWER_MS;
    for (int64_t left_ms = ANSWER_MS; wanted && whose && left_ms > 0; left_ms = until_ms - gcoll_now_ms()) {
        nfds_t open = 0;
        for (size_t i = 0; i < count; i++)
            if (all[i].fd >= 0) {
                whose[open] = i;
                wanted[open++] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
            }
        if (open == 0 || (poll(wanted, open, (int)left_ms) < 0 && errno != EINTR))
            break;
        for (nfds_t i = 0; i < open; i++)
            if (wanted[i].revents != 0)
                take(&all[whose[i]]);
    }
    free(whose);
    free(wanted);
}

/* Of one that does not answer. */
static top_state state_of(long process) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    if (file) {
        const size_t got = fread(line, 1, sizeof line - 1, file);
        line[got] = '\0';
        fclose(file);
    }
    const char *state = strrchr(line, ')'); /* behind the name, in which anything may stand */
    return state && (state[1] == ' ') && (state[2] == 'T' || state[2] == 't') ? TOP_STOPPED : TOP_SILENT;
}

/* ---- What they say ------------------------------------------------------------------------------- */

static bool read_context(field_reader *r, struct json_object *from, top_context *to) {
    struct json_object *operation;
    if (!trace_read_head(r, from, &to->who) ||
        !field_small(r, from, "culprit", true, TRACE_NONE, &to->culprit) ||
        !field_whole(r, from, "now_ns", TRACE_TIME_MOST, false, 0, &to->now))
        return false;
    to->who.dumped = to->now;
    to->is_broken = json_object_object_get_ex(from, "broken", NULL);
    if (!trace_read_wait(r, from, &to->who) ||
        !field_object(r, from, "operation", json_type_object, &operation) ||
        (operation && !trace_read_operation(r, operation, &to->who, &to->operation)))
        return false;
    return field_number(r, from, "begun", false, &to->begun) &&
           field_number(r, from, "done", false, &to->done) &&
           field_number(r, from, "failed", false, &to->failed) &&
           field_number(r, from, "busy_ns", false, &to->busy_ns) &&
           field_number(r, from, "sent_bytes", false, &to->sent_bytes) &&
           field_number(r, from, "received_bytes", false, &to->received_bytes) &&
           field_number(r, from, "retransmitted", false, &to->retransmitted) &&
           field_number(r, from, "asleep_ns", false, &to->asleep_ns);
}

static bool add(top_view *view, const top_context *context) {
    top_context *more = realloc(view->contexts, (view->count + 1) * sizeof *more);
    if (!more)
        return false;
    view->contexts = more;
    more[view->count++] = *context;
    return true;
}

bool top_read(const top_answer *a, top_view *view) {
    field_reader r = {.path = a->path};
    struct json_object *all = field_parse(&r, a->text, a->bytes), *contexts = NULL;
    int64_t version = 0;
    bool good = true;
    if (all && (!json_object_is_type(all, json_type_object) ||
                !field_whole(&r, all, "gcoll_watch", INT64_MAX, false, 0, &version) ||
                !field_object(&r, all, "contexts", json_type_array, &contexts)))
        contexts = NULL;
    if (version > 1)
        field_wrong(&r, "is of version %" PRId64 "; this gcoll_top reads version 1", version);
    const size_t said = version == 1 && contexts ? json_object_array_length(contexts) : 0;
    if (said > CONTEXTS_MOST)
        field_wrong(&r, "has %zu contexts; the first %d are shown", said, CONTEXTS_MOST);
    for (size_t i = 0; i < said && i < CONTEXTS_MOST && good; i++) {
        top_context context = {.socket = a->socket, .process = a->process};
        struct json_object *one = json_object_array_get_idx(contexts, i);
        if (json_object_is_type(one, json_type_object) && read_context(&r, one, &context))
            good = add(view, &context);
    }
    if (r.problem[0] && !view->is_quiet)
        cli_complain("%s: %s", a->path, r.problem);
    json_object_put(all);
    return good;
}

static bool read_answer(const asked *a, top_view *view) {
    const top_answer answer = {a->socket, a->process, a->path, a->text ? a->text : "", a->bytes};
    return top_read(&answer, view);
}

/* A process that cannot be asked, as too many ask it, has the number that it had. */
static void recall(asked *a, const top_view *before) {
    for (size_t i = 0; i < before->count && !a->is_known; i++)
        if (before->contexts[i].socket == a->socket) {
            a->process = before->contexts[i].process;
            a->is_known = true;
        }
    for (size_t i = 0; i < before->stranger_count && !a->is_known; i++)
        if (before->strangers[i].socket == a->socket) {
            a->process = before->strangers[i].process;
            a->is_known = before->strangers[i].is_known;
        }
}

/* One that does not answer has the contexts that it had. */
static bool keep(asked *a, const top_view *before, top_view *view) {
    recall(a, before);
    top_stranger stranger = {.socket = a->socket,
                             .process = a->process,
                             .is_known = a->is_known,
                             .rank = a->rank,
                             .size = a->size,
                             .state = a->is_known ? state_of(a->process) : TOP_SILENT,
                             .silent_since = view->at};
    bool had = false, good = true;
    for (size_t i = 0; i < before->count && good; i++) {
        if (before->contexts[i].socket != a->socket)
            continue;
        top_context context = before->contexts[i];
        if (context.state == TOP_ANSWERS)
            context.silent_since = view->at;
        context.state = stranger.state;
        context.has_rates = false;
        had = true;
        good = add(view, &context);
    }
    if (had)
        return good;
    for (size_t i = 0; i < before->stranger_count; i++)
        if (before->strangers[i].socket == a->socket)
            stranger.silent_since = before->strangers[i].silent_since;
    top_stranger *more = realloc(view->strangers, (view->stranger_count + 1) * sizeof *more);
    if (!more)
        return false;
    view->strangers = more;
    more[view->stranger_count++] = stranger;
    return true;
}

/* ---- Rates --------------------------------------------------------------------------------------- */

static double per_second(uint64_t before, uint64_t now, double seconds) {
    return now > before ? (double)(now - before) / seconds : 0;
}

/* Time in operations, with what has passed of one that runs. */
static double busy_of(const top_context *c) {
    const bool runs =
        c->operation.number != 0 && c->operation.state == TRACE_RUNS && c->now > c->operation.begun;
    return (double)c->busy_ns + (runs ? (double)(c->now - c->operation.begun) : 0);
}

static int by_job(const void *a, const void *b) {
    const top_context *one = a, *other = b;
    int order = strcmp(one->who.job, other->who.job);
    if (order == 0)
        order = strcmp(one->who.group, other->who.group);
    return order != 0 ? order : one->who.rank < other->who.rank ? -1 : one->who.rank > other->who.rank;
}

/* The first of those that stand where `wanted` would: `view` is sorted. */
static size_t find_place(const top_view *view, const top_context *wanted) {
    size_t low = 0, high = view->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_job(&view->contexts[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void rate(const top_view *before, top_context *now) {
    for (size_t i = find_place(before, now); i < before->count && by_job(&before->contexts[i], now) == 0;
         i++) {
        const top_context *then = &before->contexts[i];
        const double seconds = (double)(now->now - then->now) * 1e-9;
        if (now->state != TOP_ANSWERS || then->socket != now->socket || seconds <= 0)
            continue;
        const double busy = (busy_of(now) - busy_of(then)) * 1e-9 / seconds;
        now->has_rates = true;
        now->operations_per_s = per_second(then->done, now->done, seconds);
        now->sent_per_s = per_second(then->sent_bytes, now->sent_bytes, seconds);
        now->received_per_s = per_second(then->received_bytes, now->received_bytes, seconds);
        now->busy = busy < 0 ? 0 : busy < 1 ? busy : 1;
    }
}

/* How many are asked at once: each takes a descriptor. */
static size_t portion(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > ASKED_AT_ONCE + OTHER_FILES)
        return ASKED_AT_ONCE;
    return limit.rlim_cur > OTHER_FILES ? (size_t)limit.rlim_cur - OTHER_FILES : 1;
}

static bool ask_all(asked *all, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ask(&all[i]);
        if (all[i].fd < 0 && all[i].error != 0) {
            cli_complain("cannot ask: %s", strerror(all[i].error));
            return false;
        }
    }
    hear(all, count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].fd >= 0)
            close(all[i].fd);
        all[i].fd = -1;
    }
    return true;
}

bool top_gather(const char *folder, bool is_quiet, const top_view *before, top_view *view) {
    asked *all;
    size_t count;
    *view = (top_view){.at = gcoll_now_ns(), .is_quiet = is_quiet};
    bool good = list(folder, is_quiet, &all, &count);
    const size_t most = portion();
    for (size_t i = 0; i < count && good; i += most)
        good = ask_all(&all[i], count - i < most ? count - i : most);
    for (size_t i = 0; i < count && good; i++)
        good = all[i].is_gone || (all[i].is_over ? read_answer(&all[i], view) : keep(&all[i], before, view));
    for (size_t i = 0; i < count; i++)
        free(all[i].text);
    free(all);
    if (view->count > 0)
        qsort(view->contexts, view->count, sizeof *view->contexts, by_job);
    for (size_t i = 0; i < view->count; i++)
        rate(before, &view->contexts[i]);
    return good;
}

void top_free(top_view *view) {
    free(view->contexts);
    free(view->strangers);
    *view = (top_view){.at = 0};
}
