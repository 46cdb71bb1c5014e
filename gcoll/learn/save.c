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
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/learn/learn_internal.h"
#include "gcoll/tuning/tuning.h"

#define VARIABLE   "GCOLL_TUNING_SAVE"
#define FIRST_LINE "gcoll-tuning 1\n"
#define HEAD_BYTES 512
#define RANK_BYTES 8 /* of a tour, with a space */

static uint64_t bytes_of(const gcoll_learn_site *site) {
    return site->call.count * site->call.element_bytes;
}

static bool comes_before(const gcoll_learn_site *a, const gcoll_learn_site *b) {
    if (a->call.collective != b->call.collective)
        return a->call.collective < b->call.collective;
    if (bytes_of(a) != bytes_of(b))
        return bytes_of(a) < bytes_of(b);
    return a->pace.calls > b->pace.calls; /* of one size the one that came most often counts */
}

static void sort(gcoll_learn_site **sites, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && comes_before(sites[k], sites[k - 1]); k--) {
            gcoll_learn_site *swap = sites[k];
            sites[k] = sites[k - 1];
            sites[k - 1] = swap;
        }
}

/* Also while others are tried anew: what was settled then is still the best that is known. Rules are for
 * calls without a codec. */
static bool can_be_saved(const gcoll_learn_site *site) {
    return site->study && site->study->judge.settled_at > 0 && !gcoll_codec_is_set(&site->call.codec);
}

/* The sites that are written, in order. */
static uint32_t list_sites(const gcoll_learn *learn, gcoll_learn_site **sites) {
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < learn->count; i++)
        if (can_be_saved(learn->sites[i]))
            sites[count++] = learn->sites[i];
    sort(sites, count);
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

static bool is_tour(const char *line) {
    line += strspn(line, " \t");
    return strncmp(line, "tour", 4) == 0 && strchr(" \t", line[4]);
}

static bool is_remark(const char *line) {
    line += strspn(line, " \t\r");
    return *line == '#' || *line == '\n' || *line == '\0';
}

/* Merges a section into the file's text: `section` takes the place of the one for the same job, and all other
 * lines stay, as do comments at its end, which may be about what follows. The old section's tour stays too,
 * unless `section` has one, as no tour is learned. NULL: the last error says why, or there is no memory. */
static char *merge(const char *path, const char *section) {
    char *old = calloc(1, GCOLL_TUNING_BYTES_MAX + 2);
    const size_t room = GCOLL_TUNING_BYTES_MAX + strlen(section) + 4;
    char *merged = calloc(1, room);
    gcoll_tuning before = {0}, own = {0};
    size_t bytes = 0;
    bool is_good = old && merged && gcoll_tuning_parse(section, strlen(section), VARIABLE, &own) == GCOLL_OK;
    if (is_good && access(path, F_OK) != 0)
        bytes = (size_t)snprintf(old, GCOLL_TUNING_BYTES_MAX, FIRST_LINE);
    else
        is_good = is_good && gcoll_tuning_read(path, old, &bytes) == GCOLL_OK;
    is_good = is_good && gcoll_tuning_parse(old, bytes, path, &before) == GCOLL_OK;
    if (is_good && bytes > 0 && old[bytes - 1] != '\n')
        old[bytes] = '\n';
    uint32_t first = 0, end = 0; /* the lines of the section that is replaced */
    for (uint32_t i = 0; is_good && i < before.section_count; i++) {
        const gcoll_tuning_section *is = &before.sections[i], *new = &own.sections[0];
        if (strcmp(is->transport, new->transport) == 0 && is->ranks == new->ranks &&
            is->local == new->local) {
            first = is->line;
            end = i + 1 < before.section_count ? before.sections[i + 1].line : UINT32_MAX;
        }
    }
    uint32_t line = 1;
    gcoll_text to = {merged, room, 0};
    const char *tour = NULL, *remarks = NULL; /* of the section that is replaced; the latter at its end */
    for (const char *from = old; is_good && *from != '\0'; line++) {
        const size_t length = strcspn(from, "\n");
        const bool is_kept = line < first || line >= end;
        if (is_kept && remarks)
            gcoll_text_add(&to, "%.*s", (int)(from - remarks), remarks);
        if (is_kept)
            gcoll_text_add(&to, "%.*s\n", (int)length, from);
        else if (is_tour(from) && !own.sections[0].tour)
            tour = from;
        remarks = is_kept || !is_remark(from) ? NULL : remarks ? remarks : from;
        from += length + 1;
    }
    if (is_good && remarks)
        gcoll_text_add(&to, "%s", remarks);
    if (is_good)
        gcoll_text_add(&to, "%s", strchr(section, '\n') + 1);
    if (is_good && tour)
        gcoll_text_add(&to, "%.*s\n", (int)strcspn(tour, "\n"), tour);
    gcoll_tuning_free(&before);
    gcoll_tuning_free(&own);
    free(old);
    if (!is_good) {
        free(merged);
        merged = NULL;
    }
    return merged;
}

/* Replaces the file, so that nobody ever reads half of one. Its mode stays, and a link still leads to it. */
static bool replace(const char *path, const char *text) {
    struct stat about;
    char *real = realpath(path, NULL);
    const char *place = real ? real : path;
    const size_t room = strlen(place) + 32;
    char *beside = malloc(room);
    FILE *file = NULL;
    bool is_good = false;
    if (beside) {
        (void)snprintf(beside, room, "%s.%ld", place, (long)getpid());
        file = fopen(beside, "wxe");
    }
    if (file) {
        is_good = fputs(text, file) >= 0 &&
                  (stat(place, &about) != 0 || fchmod(fileno(file), about.st_mode & 0777) == 0);
        is_good = fclose(file) == 0 && is_good && rename(beside, place) == 0;
        if (!is_good)
            (void)remove(beside);
    }
    free(beside);
    free(real);
    return is_good;
}

/* section: with the first line of a file, so that it is one by itself. */
static gcoll_status save(const char *path, const char *section) {
    gcoll_tuning check = {0};
    char *text = merge(path, section);
    if (!text)
        return GCOLL_ERR_INVALID;
    gcoll_status status = gcoll_tuning_parse(text, strlen(text), path, &check);
    gcoll_tuning_free(&check);
    if (status == GCOLL_OK && strlen(text) > GCOLL_TUNING_BYTES_MAX)
        status = gcoll_error(GCOLL_ERR_INVALID, "it would have %zu bytes; allowed are %d", strlen(text),
                             GCOLL_TUNING_BYTES_MAX);
    if (status == GCOLL_OK && !replace(path, text)) {
        char why[GCOLL_ERRNO_TEXT_MAX];
        status = gcoll_error(GCOLL_ERR_IO, "%s", gcoll_errno_text(errno, why));
    }
    free(text);
    return status;
}

void gcoll_learn_save(gcoll_context *context) {
    const gcoll_learn *learn = context->learn;
    const char *path = getenv(VARIABLE);
    gcoll_learn_site *sites[GCOLL_LEARN_SITES];
    if (!learn || context->rank != 0 || !path || !path[0] || gcoll_is_forked(context))
        return;
    const uint32_t count = list_sites(learn, sites);
    if (count == 0) {
        gcoll_log(context, GCOLL_LOG_INFO, "%s: nothing goes to %s, as no algorithm was settled on yet",
                  VARIABLE, path);
        return;
    }
    const size_t head =
        HEAD_BYTES + (gcoll_basis_tour(context->basis) ? context->size * (size_t)RANK_BYTES : 0);
    const size_t room = head + count * (GCOLL_ALGORITHM_TEXT_MAX + 96);
    char *section = calloc(1, room);
    gcoll_status status = GCOLL_ERR_NO_MEMORY;
    if (section) {
        gcoll_text to = {section, room, 0};
        gcoll_text_add(&to, FIRST_LINE);
        status = gcoll_context_tuning(context, section + to.used, head - to.used);
        to.used = strlen(section);
        write_rules(&to, sites, count);
        if (status == GCOLL_OK)
            status = save(path, section);
    }
    free(section);
    if (status != GCOLL_OK)
        gcoll_log(context, GCOLL_LOG_WARNING, "%s: what was learned is not in %s: %s", VARIABLE, path,
                  gcoll_last_error());
}
