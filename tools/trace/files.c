/*
 * tools/trace/files.c - finds the dumps of a job. One that makes no sense is left out with a word about why.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/cli.h"
#include "tools/trace/read.h"

#define FILE_MOST ((size_t)64 << 20)

static void rank_free(trace_rank *rank) {
    free(rank->path);
    free(rank->operations);
    free(rank->steps);
}

static bool read_file(field_reader *r, trace_rank *to) {
    size_t bytes = 0;
    char *text = field_load(r, FILE_MOST, &bytes);
    struct json_object *all = text ? field_parse(r, text, bytes) : NULL;
    const bool good = all && trace_read_dump(r, all, to);
    json_object_put(all);
    free(text);
    return good;
}

/* ---- Many files --------------------------------------------------------------------------------------- */

static bool add_file(const char *path, const char *group, trace_job *job) {
    field_reader r = {.path = path};
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
