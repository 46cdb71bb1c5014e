/*
 * gcoll/rendezvous/hosts.c - counts the ranks that share the same processors.
 *
 * Rank 0 counts, as it has read the records of all ranks. A shared counter in the store would be contended,
 * and a rank that crashed and restarted would count twice. Keys "hosts.0", "hosts.1", ... below
 * "gcoll/<job>/<generation>/" hold lines: the id of the processors, a space, the number of ranks. Ranks that
 * share their processors with no other rank are not listed.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/rendezvous/meeting.h"
#include "gcoll/store/signed.h"

#define ID_DIGITS      16
#define LINE_MAX_BYTES 28 /* an id, a space, ten digits, a newline */

uint32_t gcoll_host_cores(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

uint64_t gcoll_rendezvous_processors(const char *record) {
    const char *space = strchr(record, ' '); /* the space before the host's id */
    uint64_t id = 0;
    space = space ? strchr(space + 1, ' ') : NULL;
    return space && sscanf(space, " %16" SCNx64, &id) == 1 ? id : 0;
}

uint64_t gcoll_rendezvous_host(const char *record) {
    const char *space = strchr(record, ' ');
    uint64_t id = 0;
    return space && sscanf(space, " %16" SCNx64, &id) == 1 ? id : 0;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static gcoll_status publish(gcoll_context *context, uint32_t part, const char *text, size_t bytes) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key(context, key, "%s/hosts.%u", context->rendezvous->generation, part);
    return gcoll_visit_set(context, key, text, bytes);
}

gcoll_status gcoll_rendezvous_publish_shared(gcoll_context *context, uint64_t *processors) {
    gcoll_status status = GCOLL_OK;
    uint32_t part = 0;
    size_t used = 0;
    char *text = malloc(GCOLL_STORE_SIGNED_MAX);
    if (!text)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", context->size);
    qsort(processors, context->size, sizeof *processors, by_value);
    for (uint32_t first = 0, next; first < context->size && status == GCOLL_OK; first = next) {
        for (next = first + 1; next < context->size && processors[next] == processors[first];)
            next++;
        if (processors[first] == 0 || next - first == 1) /* 0: unknown */
            continue;
        used += (size_t)snprintf(text + used, GCOLL_STORE_SIGNED_MAX - used, "%016" PRIx64 " %u\n",
                                 processors[first], next - first);
        if (used + LINE_MAX_BYTES > GCOLL_STORE_SIGNED_MAX) {
            status = publish(context, part++, text, used);
            used = 0;
        }
    }
    if (status == GCOLL_OK && used > 0)
        status = publish(context, part, text, used);
    free(text);
    return status;
}

/* The number of ranks in the line of this id; 0 if there is no line. */
static uint32_t find(const char *text, const char *id) {
    uint32_t ranks = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, id, ID_DIGITS) == 0 && sscanf(line + ID_DIGITS, " %" SCNu32, &ranks) == 1)
            return ranks;
    }
    return 0;
}

gcoll_status gcoll_rendezvous_count_shared(gcoll_context *context, uint32_t *ranks) {
    char key[GCOLL_STORE_KEY_MAX + 1], id[ID_DIGITS + 1];
    gcoll_status status = GCOLL_OK;
    uint32_t found = 0;
    size_t bytes = 0;
    char *text = malloc(GCOLL_STORE_SIGNED_MAX + 1);
    if (!text)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", context->size);
    snprintf(id, sizeof id, "%016" PRIx64, gcoll_processors_identity());
    for (uint32_t part = 0; status == GCOLL_OK && found == 0 && part < context->size; part++) {
        gcoll_rendezvous_key(context, key, "%s/hosts.%u", context->rendezvous->generation, part);
        status = gcoll_visit_get(context, key, text, GCOLL_STORE_SIGNED_MAX, &bytes);
        text[status == GCOLL_OK ? bytes : 0] = '\0';
        found = find(text, id);
    }
    free(text);
    *ranks = found > 0 && found <= context->size ? found : 1;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

gcoll_status gcoll_rendezvous_remove_shared(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], some[1];
    gcoll_status status = GCOLL_OK;
    size_t bytes;
    for (uint32_t part = 0; status == GCOLL_OK && part < context->size; part++) {
        gcoll_rendezvous_key(context, key, "%s/hosts.%u", context->rendezvous->generation, part);
        status = gcoll_visit_get(context, key, some, sizeof some, &bytes);
        if (status == GCOLL_OK || status == GCOLL_ERR_INVALID) /* too long for the buffer, so it exists */
            status = gcoll_visit_remove(context, key);
    }
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}
