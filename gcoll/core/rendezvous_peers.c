/* gcoll/core/rendezvous_peers.c - what the store says of the others once all have met, and leaving the job.
 * The keys are those of rendezvous.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

#define HOST_TEXT 17 /* 16 hex digits */

/* "!<status> <culprit> <text>" stands for the address of a rank that broke. */
static gcoll_status leave_cause(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], record[GCOLL_NOTE_TEXT_MAX + 64];
    int bytes = snprintf(record, sizeof record, "!%d %u %s", context->cause.status, context->cause.culprit,
                         context->cause.text);
    gcoll_rendezvous_key(context, key, "%s/broken", context->generation);
    gcoll_status status = gcoll_store_set(context->store, key, "", 0);
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, context->rank);
    return status == GCOLL_OK ? gcoll_store_set(context->store, key, record, (size_t)bytes) : status;
}

void gcoll_rendezvous_leave_cause(gcoll_context *context) {
    if (context->joined)
        leave_cause(context);
}

static gcoll_status read_cause(const gcoll_context *context, const char *record, gcoll_note *cause) {
    char *status_end = NULL, *culprit_end = NULL;
    long status = strtol(record + 1, &status_end, 10);
    unsigned long culprit = strtoul(status_end, &culprit_end, 10);
    if (culprit_end == status_end || *culprit_end != ' ')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "an address in the store makes no sense; another program's?");
    cause->status = status > 0 && status <= GCOLL_ERR_INTERNAL ? (int32_t)status : GCOLL_ERR_PEER;
    cause->culprit = culprit < context->size ? (uint32_t)culprit : GCOLL_NO_RANK;
    snprintf(cause->text, sizeof cause->text, "%.*s", (int)sizeof cause->text - 1, culprit_end + 1);
    return gcoll_error(GCOLL_ERR_STATE, "job '%s': a rank broke: %s", context->job, cause->text);
}

/* The whole record of a rank, as it published it. */
static gcoll_status get_record(gcoll_context *context, uint32_t peer, char record[GCOLL_RECORD_MAX],
                               gcoll_note *cause) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    size_t bytes = 0;
    if (context->addresses) {
        snprintf(record, GCOLL_RECORD_MAX, "%s", context->addresses[peer]);
        return GCOLL_OK;
    }
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, peer);
    gcoll_status status = gcoll_store_get(context->store, key, record, GCOLL_RECORD_MAX - 1, &bytes);
    if (status == GCOLL_OK)
        record[bytes] = '\0';
    return status == GCOLL_OK && record[0] == '!' ? read_cause(context, record, cause) : status;
}

gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t size,
                                     gcoll_note *cause) {
    char record[GCOLL_RECORD_MAX];
    gcoll_status status = get_record(context, peer, record, cause);
    if (status == GCOLL_OK)
        snprintf(address, size, "%.*s", (int)strcspn(record, " "), record);
    return status;
}

/* A rank that left or broke will not take part, wherever that is found out. Other errors leave the context as
 * it is: the store may answer the next time. */
static gcoll_status miss(gcoll_context *context, uint32_t rank, gcoll_status status,
                         const gcoll_note *cause) {
    if (status == GCOLL_ERR_STATE)
        gcoll_break_reported(context, cause, rank);
    else if (status == GCOLL_ERR_NOT_FOUND)
        gcoll_break_operation(context, GCOLL_ERR_PEER, rank, "rank %u left the job", rank);
    else
        return status;
    return gcoll_context_settle(context);
}

/* The second word of a record. */
static gcoll_status host_of(const char *record, uint32_t rank, char host[HOST_TEXT]) {
    const char *space = strchr(record, ' ');
    if (!space || strcspn(space + 1, " ") != HOST_TEXT - 1 ||
        strspn(space + 1, "0123456789abcdef") != HOST_TEXT - 1)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u: its record in the store names no host", rank);
    memcpy(host, space + 1, HOST_TEXT - 1);
    host[HOST_TEXT - 1] = '\0';
    return GCOLL_OK;
}

/* A host gets the number of the first rank that is on it. */
gcoll_status gcoll_rendezvous_hosts(gcoll_context *context) {
    char record[GCOLL_RECORD_MAX];
    gcoll_note cause;
    gcoll_status status = GCOLL_OK;
    char(*hosts)[HOST_TEXT] = calloc(context->size, sizeof *hosts);
    uint32_t *node = calloc(context->size, sizeof *node);
    if (!hosts || !node)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", context->size);
    for (uint32_t rank = 0; rank < context->size && context->size > 1 && status == GCOLL_OK; rank++) {
        status = get_record(context, rank, record, &cause);
        if (status != GCOLL_OK)
            status = miss(context, rank, status, &cause);
        if (status == GCOLL_OK)
            status = host_of(record, rank, hosts[rank]);
        if (status != GCOLL_OK)
            break;
        while (strcmp(hosts[node[rank]], hosts[rank]) != 0)
            node[rank]++;
    }
    free(hosts);
    if (status == GCOLL_OK)
        context->node = node;
    else
        free(node);
    return status;
}

/* The last one to leave takes away what was for all, and the causes that broken ranks left. A store that
 * fails is left alone at the first failure: each request may take its whole timeout. */
static void leave_last(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], value[1];
    const char *const common[] = {"tuning", "agreed", "go", "broken", "left"};
    size_t bytes;
    gcoll_rendezvous_key(context, key, "%s/broken", context->generation);
    gcoll_status status = gcoll_store_get(context->store, key, value, sizeof value, &bytes);
    uint32_t causes = status == GCOLL_OK ? context->size : 0;
    status = status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
    for (uint32_t rank = 0; rank < causes && status == GCOLL_OK; rank++) {
        gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, rank);
        status = gcoll_store_remove(context->store, key);
    }
    if (status == GCOLL_OK)
        status = gcoll_rendezvous_remove_shared(context);
    for (size_t i = 0; i < sizeof common / sizeof common[0] && status == GCOLL_OK; i++) {
        gcoll_rendezvous_key(context, key, "%s/%s", context->generation, common[i]);
        status = gcoll_store_remove(context->store, key);
    }
}

void gcoll_rendezvous_leave(gcoll_context *context) {
    if (!context->joined)
        return;
    char key[GCOLL_STORE_KEY_MAX + 1];
    int64_t value = 0;
    gcoll_status status;
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->generation, context->rank);
    status = context->broken ? leave_cause(context) : gcoll_store_remove(context->store, key);
    gcoll_rendezvous_key(context, key, "%s/left", context->generation);
    if (status == GCOLL_OK)
        status = gcoll_store_add(context->store, key, 1, &value);
    if (status == GCOLL_OK && value >= (int64_t)context->size)
        leave_last(context);
}
