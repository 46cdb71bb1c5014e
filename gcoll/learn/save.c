/*
 * gcoll/learn/save.c - writes what was learned as a section of a tuning file, when rank 0 destroys its
 * context.
 *
 * Each kind of call gives the algorithm for its size. The border between two sizes of a collective is their
 * geometric mean. Other sections of the file stay. A file that cannot be written is told in the log: it is no
 * reason to fail.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algorithms/select/tuning_file.h"
#include "gcoll/learn/learn_internal.h"

#define VARIABLE   "GCOLL_TUNING_SAVE"
#define FIRST_LINE "gcoll-tuning 1\n"
#define HEAD_BYTES 512

static uint64_t bytes_of(const gcoll_learn_site *site) {
    return site->call.count * site->call.element_bytes;
}

static int by_size(const void *left, const void *right) {
    const gcoll_learn_site *a = *(gcoll_learn_site *const *)left, *b = *(gcoll_learn_site *const *)right;
    if (a->call.collective != b->call.collective)
        return a->call.collective < b->call.collective ? -1 : 1;
    if (bytes_of(a) != bytes_of(b))
        return bytes_of(a) < bytes_of(b) ? -1 : 1;
    return a->calls > b->calls ? -1 : 1; /* of one size the one that came most often counts */
}

static bool is_known(const gcoll_learn_site *site) {
    return site->study && site->study->judge.state == GCOLL_JUDGE_SETTLED;
}

/* The sites that are written, in order. */
static uint32_t list_sites(const gcoll_learn *learn, gcoll_learn_site **sites) {
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < learn->count; i++)
        if (is_known(learn->sites[i]))
            sites[count++] = learn->sites[i];
    qsort(sites, count, sizeof sites[0], by_size);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || sites[kept - 1]->call.collective != sites[i]->call.collective ||
            bytes_of(sites[kept - 1]) != bytes_of(sites[i]))
            sites[kept++] = sites[i];
    return kept;
}

static uint64_t border(const gcoll_learn_site *below, const gcoll_learn_site *above) {
    const double middle = sqrt(fmax((double)bytes_of(below), 1) * (double)bytes_of(above));
    return (uint64_t)fmax(middle, (double)bytes_of(below) + 1);
}

static void write_rules(gcoll_text *to, gcoll_learn_site *const *sites, uint32_t count) {
    uint64_t from = 0;
    for (uint32_t i = 0; i < count; i++) {
        const gcoll_learn_site *site = sites[i];
        const bool is_last = i + 1 == count || sites[i + 1]->call.collective != site->call.collective;
        const uint64_t end = is_last ? 0 : border(site, sites[i + 1]);
        gcoll_text_add(to, "choose %s %llu ", gcoll_collective_name((gcoll_collective)site->call.collective),
                       (unsigned long long)from);
        if (is_last)
            gcoll_text_add(to, "- ");
        else
            gcoll_text_add(to, "%llu ", (unsigned long long)end);
        gcoll_text_add(to, "%s\n", site->study->texts[site->study->judge.home]);
        from = end;
    }
}

/* Copies the lines of a file but for the section that begins with `head`. Returns false if it is no tuning
 * file. */
static bool copy_others(const char *path, const char *head, FILE *to) {
    char *line = NULL;
    size_t room = 0;
    bool is_first = true, is_good = true, is_same = false;
    FILE *from = fopen(path, "re");
    if (!from)
        return errno == ENOENT && fputs(FIRST_LINE, to) >= 0;
    while (is_good && getline(&line, &room, from) > 0) {
        is_good = !is_first || strcmp(line, FIRST_LINE) == 0;
        is_first = false;
        if (strncmp(line, "for ", 4) == 0)
            is_same = strncmp(line, head, strlen(head)) == 0;
        is_good = is_good && (is_same || fputs(line, to) >= 0);
    }
    free(line);
    (void)fclose(from);
    return is_good && !is_first;
}

static bool write_file(const char *path, const char *section, size_t head_bytes) {
    const size_t room = strlen(path) + 32;
    char *beside = malloc(room), *head = strndup(section, head_bytes);
    FILE *file = NULL;
    bool is_good = false;
    if (beside && head) {
        (void)snprintf(beside, room, "%s.%ld", path, (long)getpid());
        file = fopen(beside, "wxe");
    }
    if (file) {
        is_good = copy_others(path, head, file) && fputs(section, file) >= 0 &&
                  ftell(file) <= GCOLL_TUNING_BYTES_MAX;
        is_good = fclose(file) == 0 && is_good && rename(beside, path) == 0;
        if (!is_good)
            (void)remove(beside);
    }
    free(beside);
    free(head);
    return is_good;
}

void gcoll_learn_save(gcoll_context *context) {
    const gcoll_learn *learn = context->learn;
    const char *path = getenv(VARIABLE);
    gcoll_learn_site *sites[GCOLL_LEARN_SITES];
    if (!learn || context->rank != 0 || !path || !path[0] || gcoll_is_forked(context))
        return;
    const uint32_t count = list_sites(learn, sites);
    if (count == 0)
        return;
    const size_t room = HEAD_BYTES + count * (GCOLL_ALGORITHM_TEXT_MAX + 96);
    char *section = calloc(1, room);
    errno = 0;
    bool is_good = section && gcoll_context_tuning(context, section, HEAD_BYTES) == GCOLL_OK;
    if (is_good) {
        gcoll_text to = {section, room, strlen(section)};
        const size_t head_bytes = strcspn(section, "\n") + 1;
        write_rules(&to, sites, count);
        is_good = write_file(path, section, head_bytes);
    }
    free(section);
    if (is_good)
        return;
    char text[GCOLL_ERRNO_TEXT_MAX];
    gcoll_log(context, GCOLL_LOG_WARNING, "what was learned cannot be written to %s (%s): %s", path, VARIABLE,
              errno != 0 ? gcoll_errno_text(errno, text)
                         : "it is there and is no tuning file, or would be too long for one");
}
