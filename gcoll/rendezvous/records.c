/* gcoll/rendezvous/records.c - after the meeting: reads the records of other ranks, keeps this rank's own
 * keys, and removes them when it leaves. The keys are described in meeting.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/rendezvous/meeting.h"

#define HOST_TEXT 17 /* 16 hex digits */
/* Time to write the cause of a failure to the store, for ranks without a connection. */
#define CAUSE_LIMIT_MS 300
#define KEEP_LIMIT_MS  500

/* Replaces this rank's address by the cause of its break: "!<status> <culprit> <passed on: 0 or 1> <text>".
 */
static gcoll_status leave_cause(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], record[GCOLL_NOTE_TEXT_MAX + 64];
    const gcoll_note *cause = &context->health.cause;
    int bytes = snprintf(record, sizeof record, "!%d %u %d %s", cause->status, cause->culprit,
                         cause->passed_on, cause->text);
    gcoll_rendezvous_key(context, key, "%s/broken", context->rendezvous->generation);
    gcoll_status status = gcoll_visit_set(context, key, "", 0);
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, context->rank);
    if (status == GCOLL_OK)
        status = gcoll_visit_set(context, key, record, (size_t)bytes);
    context->rendezvous->meeting->has_cause = status == GCOLL_OK;
    return status;
}

void gcoll_rendezvous_leave_cause(gcoll_context *context) {
    if (!context->rendezvous->joined)
        return;
    const int64_t before_ms = context->rendezvous->meeting->limit_ms;
    gcoll_visits_until(context, gcoll_now_ms() + CAUSE_LIMIT_MS);
    leave_cause(context);
    gcoll_visits_end(context);
    gcoll_visits_until(context, before_ms);
}

bool gcoll_rendezvous_part(gcoll_context *context, int64_t limit_ms) {
    if (!context->rendezvous->joined)
        return true;
    if (!context->rendezvous->meeting->complete) {
        gcoll_rendezvous_leave(context, limit_ms);
        return true;
    }
    if (!context->rendezvous->meeting->has_cause) {
        gcoll_visits_until(context, limit_ms);
        leave_cause(context);
        gcoll_visits_end(context);
    }
    return false;
}

static gcoll_status read_cause(const gcoll_context *context, const char *record, gcoll_note *cause) {
    char *status_end = NULL, *culprit_end = NULL;
    long status = strtol(record + 1, &status_end, 10);
    unsigned long culprit = strtoul(status_end, &culprit_end, 10);
    const bool passed_on = strncmp(culprit_end, " 1 ", 3) == 0;
    if (culprit_end == status_end || (!passed_on && strncmp(culprit_end, " 0 ", 3) != 0))
        return gcoll_error(GCOLL_ERR_PROTOCOL, "an address in the store makes no sense; another program's?");
    cause->status = status > 0 && status <= GCOLL_ERR_INTERNAL ? (int32_t)status : GCOLL_ERR_PEER;
    cause->culprit = culprit < context->size ? (uint32_t)culprit : GCOLL_NO_RANK;
    cause->passed_on = passed_on;
    snprintf(cause->text, sizeof cause->text, "%.*s", (int)sizeof cause->text - 1, culprit_end + 3);
    gcoll_text_clean(cause->text);
    return gcoll_error(GCOLL_ERR_STATE, "job '%s': a rank broke: %s", context->settings.job, cause->text);
}

/* Reads a key within the context's timeout; during creation, within the time that is left of it. */
static gcoll_status get_text(gcoll_context *context, const char *key, char *text, size_t size) {
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    if (meeting->creating)
        return gcoll_visit_text(context, key, text, size);
    gcoll_visits_until(context, gcoll_now_ms() + context->settings.timeout_ms);
    gcoll_status status = gcoll_visit_text(context, key, text, size);
    gcoll_visits_end(context);
    return status;
}

/* Whether the context is a group that has no records yet. Its endpoint is open, so events may come. */
static bool is_unknown(const gcoll_context *context) {
    return !context->rendezvous->addresses && !context->rendezvous->meeting;
}

/* Tells a departed rank from a store that lost its keys: "go" exists until the last rank has left.
 * NOT_FOUND: the rank has left. */
gcoll_status gcoll_rendezvous_has_left(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], text[GCOLL_VERDICT_MAX + 8];
    if (is_unknown(context))
        return GCOLL_ERR_NOT_FOUND;
    gcoll_rendezvous_key_of(context, key, "go");
    gcoll_status status = get_text(context, key, text, sizeof text);
    if (status == GCOLL_OK)
        return GCOLL_ERR_NOT_FOUND;
    if (status != GCOLL_ERR_NOT_FOUND)
        return status;
    return gcoll_error(GCOLL_ERR_IO, "the store has lost the keys of job '%s'%s", context->settings.job,
                       context->rendezvous->meeting->launch_said);
}

/* The whole record of a rank, as it published it. */
static gcoll_status get_record(gcoll_context *context, uint32_t peer, char record[GCOLL_RECORD_MAX],
                               gcoll_note *cause) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    if (context->rendezvous->addresses) {
        snprintf(record, GCOLL_RECORD_MAX, "%s", context->rendezvous->addresses[peer]);
        return GCOLL_OK;
    }
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, peer);
    gcoll_status status = get_text(context, key, record, GCOLL_RECORD_MAX);
    return status == GCOLL_OK && record[0] == '!' ? read_cause(context, record, cause) : status;
}

gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t size,
                                     gcoll_note *cause) {
    char record[GCOLL_RECORD_MAX];
    if (is_unknown(context))
        return GCOLL_ERR_NOT_FOUND;
    gcoll_status status = get_record(context, peer, record, cause);
    if (status == GCOLL_OK)
        snprintf(address, size, "%.*s", (int)strcspn(record, " "), record);
    if (status == GCOLL_OK)
        gcoll_text_clean(address); /* transports quote bad addresses in their errors */
    return status;
}

/* Reads the host's id, the second word of a record. */
static gcoll_status host_of(const char *record, uint32_t rank, uint64_t *host) {
    const char *space = strchr(record, ' ');
    if (!space || strcspn(space + 1, " ") != HOST_TEXT - 1 ||
        strspn(space + 1, "0123456789abcdef") != HOST_TEXT - 1)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u: its record in the store names no host", rank);
    *host = gcoll_rendezvous_host(record);
    return GCOLL_OK;
}

/* Numbers each rank's host; a host gets the number of its first rank. */
static gcoll_status find_hosts(gcoll_context *context, uint64_t *hosts, uint32_t *node, uint32_t *missing,
                               gcoll_note *cause) {
    char record[GCOLL_RECORD_MAX];
    for (uint32_t rank = 0; rank < context->size && context->size > 1; rank++) {
        gcoll_status status = get_record(context, rank, record, cause);
        if (status != GCOLL_OK) {
            *missing = rank;
            return status;
        }
        status = host_of(record, rank, &hosts[rank]);
        if (status != GCOLL_OK)
            return status;
    }
    return gcoll_hosts_number(hosts, context->size, node);
}

gcoll_status gcoll_rendezvous_hosts(gcoll_context *context, const uint32_t **out, uint32_t *missing,
                                    gcoll_note *cause) {
    gcoll_rendezvous *rendezvous = context->rendezvous;
    *missing = GCOLL_NO_RANK;
    *out = rendezvous->node;
    if (rendezvous->node)
        return GCOLL_OK;
    uint64_t *hosts = calloc(context->size, sizeof *hosts);
    uint32_t *node = calloc(context->size, sizeof *node);
    gcoll_status status = hosts && node ? find_hosts(context, hosts, node, missing, cause)
                                        : gcoll_error(GCOLL_ERR_NO_MEMORY,
                                                      "no memory for the hosts of %u ranks", context->size);
    free(hosts);
    if (status == GCOLL_OK)
        *out = rendezvous->node = node;
    else
        free(node);
    return status;
}

gcoll_status gcoll_rendezvous_take_record(gcoll_context *context, uint32_t rank, const char *record) {
    gcoll_rendezvous *rendezvous = context->rendezvous;
    const size_t address = strcspn(record, " ");
    const char *host = record + address;
    if (address == 0 || address >= GCOLL_ADDRESS_MAX || strlen(record) >= GCOLL_RECORD_MAX ||
        host[0] != ' ' || strspn(host + 1, "0123456789abcdef") != HOST_TEXT - 1 || host[HOST_TEXT] != ' ')
        return gcoll_error(
            GCOLL_ERR_PROTOCOL,
            "the record of rank %u is '%.60s'; it must be an address, a host and its processors", rank,
            record);
    if (!rendezvous->addresses)
        rendezvous->addresses = calloc(context->size, sizeof *rendezvous->addresses);
    if (rendezvous->addresses && !rendezvous->addresses[rank])
        rendezvous->addresses[rank] = strdup(record);
    return rendezvous->addresses && rendezvous->addresses[rank]
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
}

uint32_t gcoll_rendezvous_sharing(const gcoll_context *context, uint32_t rank) {
    char *const *records = context->rendezvous->addresses;
    const uint64_t processors = gcoll_rendezvous_processors(records[rank]);
    uint32_t count = 0;
    for (uint32_t other = 0; other < context->size; other++)
        count +=
            other == rank || (processors != 0 && gcoll_rendezvous_processors(records[other]) == processors);
    return count;
}

bool gcoll_rendezvous_has_addresses(const gcoll_context *context) {
    return context->rendezvous->addresses;
}

/* The last rank to leave removes the common keys, and the causes and marks of broken ranks. It stops at the
 * first failure of the store, as each request may take all the time that is left. */
static void leave_last(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], value[1];
    const char *const common[] = {"tuning", "agreed", "go", "broken", "left"};
    const char *const own[] = {"addr", "rank"};
    size_t bytes;
    gcoll_rendezvous_key(context, key, "%s/broken", context->rendezvous->generation);
    gcoll_status status = gcoll_visit_get(context, key, value, sizeof value, &bytes);
    uint32_t marks = status == GCOLL_OK ? 2 * context->size : 0;
    status = status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
    for (uint32_t i = 0; i < marks && status == GCOLL_OK; i++) {
        gcoll_rendezvous_key(context, key, "%s/%s.%u", context->rendezvous->generation, own[i % 2], i / 2);
        status = gcoll_visit_remove(context, key);
    }
    if (status == GCOLL_OK)
        status = gcoll_rendezvous_remove_shared(context);
    if (status == GCOLL_OK && context->rendezvous->meeting->complete)
        status = gcoll_refusal_remove_memo(context);
    for (size_t i = 0; i < sizeof common / sizeof common[0] && status == GCOLL_OK; i++) {
        gcoll_rendezvous_key(context, key, "%s/%s", context->rendezvous->generation, common[i]);
        status = gcoll_visit_remove(context, key);
    }
}

/* Returns whether the common keys may be removed. Until rank 0 has taken the launch away, ranks may join it,
 * and must find the verdict. So a launch that still stands is not the last rank's to remove, however many
 * have left. */
static bool is_over(gcoll_context *context) {
    bool stands = false;
    return context->rendezvous->meeting->complete ||
           (gcoll_launch_stands(context, &stands) == GCOLL_OK && !stands);
}

/* Removes this rank's own keys. A rank that failed to join first turns its claim into a mark, which the last
 * rank removes: without claim and address it would seem never to have joined. */
static gcoll_status leave_own(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const gcoll_meeting *meeting = context->rendezvous->meeting;
    gcoll_status status = GCOLL_OK;
    if (!meeting->complete) {
        gcoll_rendezvous_key(context, key, "%s/broken", context->rendezvous->generation);
        status = gcoll_visit_set(context, key, "", 0);
    }
    if (status == GCOLL_OK && !meeting->complete)
        status = gcoll_rank_leave(context);
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, context->rank);
    if (status == GCOLL_OK && !context->health.broken)
        status = gcoll_visit_remove(context, key);
    else if (status == GCOLL_OK && !meeting->has_cause)
        status = leave_cause(context);
    gcoll_rendezvous_key(context, key, "%s/alive.%u", context->rendezvous->generation, context->rank);
    if (status == GCOLL_OK && meeting->beats > 0)
        status = gcoll_visit_remove(context, key);
    return status == GCOLL_OK && meeting->complete ? gcoll_rank_leave(context) : status;
}

void gcoll_rendezvous_leave(gcoll_context *context, int64_t limit_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    int64_t value = 0;
    if (!context->rendezvous->joined || (context->rendezvous->meeting->store_stuck &&
                                         (context->health.broken || !context->rendezvous->meeting->complete)))
        return;
    context->rendezvous->meeting->has_failed = !context->rendezvous->meeting->complete;
    if (context->rendezvous->meeting->complete)
        gcoll_visits_to_leave(context, limit_ms);
    else
        gcoll_visits_to_tell(context, limit_ms);
    if (context->rank == 0 &&
        !context->rendezvous->meeting->has_led) { /* no other rank knows this generation */
        gcoll_rendezvous_key(context, key, "%s/tuning", context->rendezvous->generation);
        gcoll_visit_remove(context, key);
        gcoll_visits_end(context);
        return;
    }
    gcoll_status status = leave_own(context);
    gcoll_rendezvous_key(context, key, "%s/left", context->rendezvous->generation);
    if (status == GCOLL_OK)
        status = gcoll_visit_add(context, key, 1, &value);
    if (status == GCOLL_OK && value >= (int64_t)context->size && is_over(context))
        leave_last(context);
    gcoll_visits_end(context);
}

/* Renews the lifetime of this rank's address and of "go"; other keys serve the meeting only, and may expire.
 * If the address is gone (no call for a day, or an emptied store), it is written again: without it the rank
 * seems to have left. */
void gcoll_rendezvous_keep(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const char *record = context->rendezvous->meeting->record;
    const int64_t now = gcoll_now_ms();
    context->rendezvous->keep_ms = now + GCOLL_KEEP_AGAIN_MS;
    gcoll_rendezvous_key(context, key, "%s/addr.%u", context->rendezvous->generation, context->rank);
    gcoll_store_set_timeout(context->settings.store, KEEP_LIMIT_MS);
    gcoll_status status = gcoll_store_keep(context->settings.store, key, GCOLL_KEEP_MS);
    if (status == GCOLL_OK) {
        gcoll_rendezvous_key_of(context, key, "go"); /* without "go" all keys seem lost */
        gcoll_store_keep(context->settings.store, key, GCOLL_KEEP_MS);
    }
    gcoll_visits_end(context);
    if (status != GCOLL_ERR_NOT_FOUND)
        return;
    gcoll_visits_until(context, now + KEEP_LIMIT_MS);
    gcoll_visit_set(context, key, record, strlen(record));
    gcoll_visits_end(context);
}

void gcoll_rendezvous_keep_if_due(gcoll_context *context) {
    if (!context->health.broken && gcoll_rendezvous_is_due(context, gcoll_now_coarse_ms()))
        gcoll_rendezvous_keep(context);
}

void gcoll_rendezvous_abandon(gcoll_context *context) {
    context->rendezvous->joined = false;
}

void gcoll_rendezvous_free(gcoll_context *context) {
    gcoll_rendezvous *rendezvous = context->rendezvous;
    for (uint32_t peer = 0; rendezvous->addresses && peer < context->size; peer++)
        free(rendezvous->addresses[peer]);
    free(rendezvous->addresses);
    free(rendezvous->node);
    free(rendezvous->meeting);
}
