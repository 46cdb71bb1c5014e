/*
 * tools/trace/files.c - reads dumps. They come from anywhere: sizes, types and numbers are checked before
 * they are used, texts are cleaned, and a file that makes no sense is left out with a word about why.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gcoll/base/text.h"
#include "gcoll/plan.h"
#include "tools/cli.h"
#include "tools/trace/trace.h"

#define FILE_MOST       ((off_t)16 << 20)
#define OPERATIONS_MOST 4096                         /* the recorder keeps 1,024 */
#define UNIX_MOST       INT64_C(4000000000000000000) /* the year 2096; sums of two have 64 bits */
#define TIME_MOST       INT64_C(100000000000000000)  /* three years */

/* What was wrong with the file that is being read. */
typedef struct reader {
    const char *path;
    char problem[TRACE_TEXT];
} reader;

static bool wrong(reader *r, const char *format, ...) GCOLL_PRINTF(2, 3);
static bool wrong(reader *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->problem, sizeof r->problem, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Fields ----------------------------------------------------------------------------------------- */

static bool get_whole(reader *r, struct json_object *from, const char *name, int64_t most, bool may_lack,
                      int64_t lacking, int64_t *to) {
    struct json_object *found;
    *to = lacking;
    if (!json_object_object_get_ex(from, name, &found))
        return may_lack || wrong(r, "'%s' is missing", name);
    if (!json_object_is_type(found, json_type_int))
        return wrong(r, "'%s' is no whole number", name);
    const int64_t value = json_object_get_int64(found);
    if (value < 0 || value > most)
        return wrong(r, "'%s' is %" PRId64 "; allowed are 0 to %" PRId64, name, value, most);
    *to = value;
    return true;
}

static bool get_text(reader *r, struct json_object *from, const char *name, bool may_lack, char *to,
                     size_t bytes) {
    struct json_object *found;
    to[0] = '\0';
    if (!json_object_object_get_ex(from, name, &found))
        return may_lack || wrong(r, "'%s' is missing", name);
    if (!json_object_is_type(found, json_type_string))
        return wrong(r, "'%s' is no text", name);
    snprintf(to, bytes, "%s", json_object_get_string(found));
    gcoll_text_clean(to);
    return true;
}

static bool get_object(reader *r, struct json_object *from, const char *name, json_type type,
                       struct json_object **to) {
    if (!json_object_object_get_ex(from, name, to)) {
        *to = NULL;
        return true;
    }
    return json_object_is_type(*to, type) || wrong(r, "'%s' is no %s", name, json_type_to_name(type));
}

/* A rank or a number of them, which has 32 bits. */
static bool get_small(reader *r, struct json_object *from, const char *name, bool may_lack, uint32_t lacking,
                      uint32_t *to) {
    int64_t value;
    const bool good = get_whole(r, from, name, UINT32_MAX - 1, may_lack, lacking, &value);
    *to = (uint32_t)value;
    return good;
}

static bool get_number(reader *r, struct json_object *from, const char *name, bool may_lack, uint64_t *to) {
    int64_t value;
    const bool good = get_whole(r, from, name, INT64_MAX, may_lack, 0, &value);
    *to = (uint64_t)value;
    return good;
}

/* ---- One file ---------------------------------------------------------------------------------------- */

static bool read_operation(reader *r, struct json_object *from, const trace_rank *rank, trace_operation *to) {
    int64_t done, failed;
    if (!json_object_is_type(from, json_type_object))
        return wrong(r, "an operation is no object");
    if (!get_number(r, from, "number", false, &to->number) ||
        !get_number(r, from, "count", false, &to->count) ||
        !get_number(r, from, "element_bytes", true, &to->element_bytes) ||
        !get_number(r, from, "sent_bytes", true, &to->sent_bytes) ||
        !get_text(r, from, "collective", false, to->collective, sizeof to->collective) ||
        !get_text(r, from, "type", true, to->type, sizeof to->type) ||
        !get_text(r, from, "op", true, to->op, sizeof to->op) ||
        !get_text(r, from, "algorithm", true, to->algorithm, sizeof to->algorithm) ||
        !get_small(r, from, "root", true, TRACE_NONE, &to->root) ||
        !get_small(r, from, "step", true, TRACE_NONE, &to->step) ||
        !get_small(r, from, "rounds", true, 0, &to->steps) ||
        !get_small(r, from, "peer", true, TRACE_NONE, &to->peer) ||
        !get_whole(r, from, "predicted_ns", TIME_MOST, true, -1, &to->predicted) ||
        !get_whole(r, from, "entered_ns", TIME_MOST, false, 0, &to->entered) ||
        !get_whole(r, from, "begun_ns", TIME_MOST, false, 0, &to->begun) ||
        !get_whole(r, from, "done_ns", TIME_MOST, true, -1, &done) ||
        !get_whole(r, from, "failed_ns", TIME_MOST, true, -1, &failed))
        return false;
    to->has_own_counts = json_object_object_get_ex(from, "own_counts", NULL);
    to->state = done >= 0 ? TRACE_DONE : failed >= 0 ? TRACE_FAILED : TRACE_RUNS;
    to->ended = done >= 0 ? done : failed >= 0 ? failed : rank->dumped;
    if (to->ended < to->begun) /* its record is newer than the dump's own time */
        to->ended = to->begun;
    return true;
}

static bool read_operations(reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *list;
    if (!get_object(r, all, "operations", json_type_array, &list))
        return false;
    const size_t count = list ? json_object_array_length(list) : 0;
    if (!list || count > OPERATIONS_MOST)
        return wrong(r, list ? "has more than %d operations" : "'operations' is missing (%d)",
                     OPERATIONS_MOST);
    to->operations = calloc(count + 1, sizeof *to->operations);
    if (!to->operations)
        return wrong(r, "out of memory");
    for (size_t i = 0; i < count; i++) {
        if (!read_operation(r, json_object_array_get_idx(list, i), to, &to->operations[i]))
            return false;
        if (i > 0 && to->operations[i].number <= to->operations[i - 1].number)
            return wrong(r, "operation %" PRIu64 " comes after %" PRIu64, to->operations[i].number,
                         to->operations[i - 1].number);
    }
    to->count = count;
    return true;
}

static bool read_wait(reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *wait, *peers;
    if (!get_object(r, all, "waiting", json_type_object, &wait))
        return false;
    if (!wait)
        return true;
    if (!get_number(r, wait, "number", false, &to->waits_number) ||
        !get_small(r, wait, "step", true, 0, &to->waits_step) ||
        !get_small(r, wait, "steps", true, 0, &to->waits_steps) ||
        !get_whole(r, wait, "since_ns", TIME_MOST, true, 0, &to->waits_since) ||
        !get_object(r, wait, "peers", json_type_array, &peers))
        return false;
    const size_t named = peers ? json_object_array_length(peers) : 0;
    for (size_t i = 0; i < TRACE_PEERS; i++) {
        struct json_object *peer = i < named ? json_object_array_get_idx(peers, i) : NULL;
        const int64_t rank = peer ? json_object_get_int64(peer) : -1;
        to->waits_peer[i] = rank >= 0 && rank < to->size ? (uint32_t)rank : TRACE_NONE;
    }
    to->waits_for_more = json_object_object_get_ex(wait, "more_peers", NULL);
    to->waits = true;
    return true;
}

static bool read_cause(reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *broken;
    to->culprit = TRACE_NONE;
    if (!get_object(r, all, "broken", json_type_object, &broken))
        return false;
    to->is_broken = broken;
    return !broken || (get_text(r, broken, "text", true, to->cause, sizeof to->cause) &&
                       get_small(r, broken, "culprit", true, TRACE_NONE, &to->culprit));
}

static bool read_all(reader *r, struct json_object *all, trace_rank *to) {
    struct json_object *clock;
    int64_t version;
    if (!json_object_is_type(all, json_type_object) || !json_object_object_get_ex(all, "gcoll_dump", NULL))
        return wrong(r, "is no dump of gcoll");
    if (!get_whole(r, all, "gcoll_dump", INT64_MAX, false, 0, &version))
        return false;
    if (version != 1)
        return wrong(r, "is a dump of version %" PRId64 "; this gcoll_trace reads version 1", version);
    if (!get_text(r, all, "job", false, to->job, sizeof to->job) ||
        !get_text(r, all, "group", false, to->group, sizeof to->group) ||
        !get_text(r, all, "host", true, to->host, sizeof to->host) ||
        !get_text(r, all, "transport", true, to->transport, sizeof to->transport) ||
        !get_small(r, all, "rank", false, 0, &to->rank) || !get_small(r, all, "size", false, 0, &to->size) ||
        !get_object(r, all, "clock", json_type_object, &clock))
        return false;
    if (!clock)
        return wrong(r, "'clock' is missing");
    if (to->size > GCOLL_MAX_RANKS || to->rank >= to->size)
        return wrong(r, "rank %u of %u makes no sense", to->rank, to->size);
    return get_whole(r, clock, "began_unix_ns", UNIX_MOST, false, 0, &to->began_unix) &&
           get_whole(r, clock, "dumped_ns", TIME_MOST, false, 0, &to->dumped) &&
           get_number(r, all, "begun", true, &to->begun) && read_cause(r, all, to) && read_wait(r, all, to) &&
           read_operations(r, all, to);
}

static void rank_free(trace_rank *rank) {
    free(rank->path);
    free(rank->operations);
}

/* The file's bytes, with a NUL behind them. */
static char *load(reader *r, size_t *bytes) {
    struct stat about;
    const int fd = open(r->path, O_RDONLY | O_NONBLOCK |
                                     O_CLOEXEC); /* a pipe would not be opened before it has a writer */
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *text = NULL;
    if (!file || fstat(fd, &about) != 0)
        wrong(r, "cannot be read: %s", strerror(errno));
    else if (!S_ISREG(about.st_mode) || about.st_size > FILE_MOST)
        wrong(r, "is no regular file of up to %jd bytes", (intmax_t)FILE_MOST);
    else if (!(text = malloc((size_t)about.st_size + 1)))
        wrong(r, "out of memory");
    if (text) {
        *bytes = fread(text, 1, (size_t)about.st_size, file);
        text[*bytes] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

static bool read_file(reader *r, trace_rank *to) {
    size_t bytes = 0;
    bool good = false;
    char *text = load(r, &bytes);
    struct json_tokener *tokener = text ? json_tokener_new() : NULL;
    if (tokener) {
        struct json_object *all = json_tokener_parse_ex(tokener, text, (int)bytes);
        const enum json_tokener_error error = json_tokener_get_error(tokener);
        if (error == json_tokener_continue)
            wrong(r, "ends too early, after %zu bytes", bytes);
        else if (error != json_tokener_success)
            wrong(r, "is no JSON at byte %zu: %s", json_tokener_get_parse_end(tokener),
                  json_tokener_error_desc(error));
        else
            good = read_all(r, all, to);
        json_object_put(all);
        json_tokener_free(tokener);
    }
    free(text);
    return good;
}

/* ---- Many files --------------------------------------------------------------------------------------- */

static bool add_file(const char *path, const char *group, trace_job *job) {
    reader r = {.path = path};
    trace_rank rank = {.rank = 0};
    bool good = read_file(&r, &rank);
    if (good && group && strncmp(rank.group, group, strlen(group)) != 0) {
        rank_free(&rank);
        return true;
    }
    rank.path = strdup(path);
    trace_rank *more =
        good && rank.path ? realloc(job->ranks, (job->count + (size_t)1) * sizeof *more) : NULL;
    if (!more) {
        cli_complain("%s: %s; left out", path, good ? "out of memory" : r.problem);
        rank_free(&rank);
        return false;
    }
    job->ranks = more;
    job->ranks[job->count++] = rank;
    return true;
}

static bool add_folder(const char *path, const char *group, trace_job *job) {
    char file[4096];
    struct dirent **names;
    const int count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        cli_complain("%s: %s", path, strerror(errno));
        return false;
    }
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(names[i]->d_name);
        if (length > 5 && strcmp(names[i]->d_name + length - 5, ".json") == 0 &&
            (size_t)snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name) < sizeof file)
            add_file(file, group, job);
        free(names[i]);
    }
    free(names);
    return true;
}

static int by_rank(const void *a, const void *b) {
    const trace_rank *one = a, *other = b;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

/* All of one group, and each rank once. */
static bool check_job(trace_job *job) {
    if (job->count == 0) {
        cli_complain("no dump of gcoll was found");
        return false;
    }
    qsort(job->ranks, job->count, sizeof *job->ranks, by_rank);
    const trace_rank *first = &job->ranks[0];
    for (uint32_t i = 1; i < job->count; i++) {
        const trace_rank *other = &job->ranks[i];
        if (strcmp(first->group, other->group) != 0 || first->size != other->size) {
            cli_complain("%s is of group %s (job %s), and %s of group %s (job %s): choose one by --group",
                         first->path, first->group, first->job, other->path, other->group, other->job);
            return false;
        }
        if (other->rank == job->ranks[i - 1].rank) {
            cli_complain("%s and %s are both of rank %u", job->ranks[i - 1].path, other->path, other->rank);
            return false;
        }
    }
    job->size = first->size;
    snprintf(job->job, sizeof job->job, "%s", first->job);
    snprintf(job->group, sizeof job->group, "%s", first->group);
    return true;
}

bool trace_read(int count, char **paths, const char *group, trace_job *job) {
    struct stat about;
    *job = (trace_job){.count = 0};
    for (int i = 0; i < count; i++)
        if (stat(paths[i], &about) == 0 && S_ISDIR(about.st_mode))
            add_folder(paths[i], group, job);
        else
            add_file(paths[i], group, job);
    if (check_job(job))
        return true;
    trace_free(job);
    return false;
}

void trace_free(trace_job *job) {
    for (uint32_t i = 0; i < job->count; i++)
        rank_free(&job->ranks[i]);
    free(job->ranks);
    *job = (trace_job){.count = 0};
}

const trace_operation *trace_find(const trace_rank *rank, uint64_t number) {
    size_t low = 0, high = rank->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank->operations[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rank->count && rank->operations[low].number == number ? &rank->operations[low] : NULL;
}

const trace_rank *trace_rank_of(const trace_job *job, uint32_t rank) {
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].rank == rank)
            return &job->ranks[i];
    return NULL;
}
