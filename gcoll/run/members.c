/*
 * gcoll/run/members.c - an exchange among some ranks of a context, in which no other rank takes part.
 *
 * The members form a tree in the order of their ranks, with the lowest rank at its root. Data of the members
 * go up the tree, and the result for all comes down. A rank has up to FANOUT members below it. So groups of
 * up to FANOUT + 1 ranks meet at one rank, and no rank of a large group needs many connections.
 *
 * Each transfer is two messages between a pair of ranks, the size and the data, with the tag of the exchange
 * in a tag space that callers of pairs cannot reach. A failure breaks the context, because its ranks are out
 * of step.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/run/request.h"

#define FANOUT     32u
#define SIZE_BYTES 8
#define HEAD_BYTES 8 /* of a block: the place and the bytes */

/* A transfer from or to one member next to this rank in the tree. */
typedef struct transfer {
    gcoll_pair *pair;
    uint32_t peer;
    gcoll_request *request; /* of the size, then of the data */
    uint8_t size[SIZE_BYTES];
    uint8_t *data;
    uint64_t bytes;
    bool has_size;
} transfer;

typedef struct transfers {
    transfer *all;
    uint32_t count, left; /* left: transfers that are not complete */
} transfers;

/* ---- The tree ----------------------------------------------------------------------------- */

static uint32_t first_child(const gcoll_members *members) {
    return members->place * FANOUT + 1;
}

static uint32_t children_of(const gcoll_members *members) {
    const uint64_t first = (uint64_t)members->place * FANOUT + 1;
    if (first >= members->count)
        return 0;
    return members->count - first < FANOUT ? members->count - (uint32_t)first : FANOUT;
}

static uint32_t parent_of(const gcoll_members *members) {
    return members->sorted[(members->place - 1) / FANOUT];
}

/* ---- Failures ----------------------------------------------------------------------------- */

/* The others would wait for ever for a rank that goes no further. */
static gcoll_status fall_out(gcoll_context *context, gcoll_status status) {
    if (!context->health.broken)
        gcoll_break(context, status, context->rank, "rank %u cannot create a group: %s", context->rank,
                    gcoll_last_error());
    const gcoll_status cause = gcoll_context_settle(context);
    return cause != GCOLL_OK ? cause : status;
}

static gcoll_status no_memory(gcoll_context *context, uint64_t bytes) {
    gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %llu bytes of its members", (unsigned long long)bytes);
    return fall_out(context, GCOLL_ERR_NO_MEMORY);
}

/* ---- Transfers ---------------------------------------------------------------------------- */

static void transfers_free(transfers *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->all[i].request) /* the context is broken, so this does not wait */
            gcoll_request_finish(&t->all[i].request);
        free(t->all[i].data);
    }
    free(t->all);
    *t = (transfers){0};
}

static bool any_done(const void *arg) {
    const transfers *t = arg;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->all[i].request && t->all[i].request->done)
            return true;
    return false;
}

static void each_waited(const void *arg, gcoll_waited_fn fn, void *fn_arg) {
    const transfers *t = arg;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->all[i].request && !fn(fn_arg, t->all[i].peer))
            return;
}

/* Takes the next step of a transfer whose request is done. */
static gcoll_status go_on(gcoll_context *context, const gcoll_members *members, transfers *t, transfer *each,
                          uint64_t most) {
    const uint64_t wanted = each->has_size ? each->bytes : SIZE_BYTES, come = each->request->message.bytes;
    gcoll_status status = gcoll_request_finish(&each->request);
    if (come != wanted && !context->health.broken) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, each->peer,
                    "group of %u ranks, tag %u: rank %u sent a message of %llu bytes; allowed are %llu",
                    members->count, members->tag, each->peer, (unsigned long long)come,
                    (unsigned long long)wanted);
        return gcoll_context_settle(context);
    }
    if (status != GCOLL_OK)
        return status;
    if (each->has_size) {
        t->left--;
        return GCOLL_OK;
    }
    each->bytes = gcoll_get_le(each->size, SIZE_BYTES);
    if (each->bytes == 0 || each->bytes > most) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, each->peer,
                    "group of %u ranks, tag %u: rank %u announces %llu bytes; allowed are 1 to %llu",
                    members->count, members->tag, each->peer, (unsigned long long)each->bytes,
                    (unsigned long long)most);
        return gcoll_context_settle(context);
    }
    each->has_size = true;
    each->data = malloc(each->bytes);
    if (!each->data)
        return no_memory(context, each->bytes);
    status = gcoll_pair_post(each->pair, members->tag, each->data, each->bytes, false, &each->request);
    return status == GCOLL_OK ? GCOLL_OK : fall_out(context, status);
}

/* Receives from `count` members, from the `first` of the sorted list on, in the order in which they come. */
static gcoll_status receive(gcoll_context *context, const gcoll_members *members, uint32_t first,
                            uint32_t count, uint64_t most, transfers *t) {
    const bool is_from_above = first < members->place;
    gcoll_status status = GCOLL_OK;
    *t = (transfers){.all = calloc(count ? count : 1, sizeof *t->all), .count = count, .left = count};
    if (!t->all) {
        t->count = 0;
        return no_memory(context, count * sizeof *t->all);
    }
    for (uint32_t i = 0; i < count && status == GCOLL_OK; i++) {
        transfer *each = &t->all[i];
        each->peer = members->sorted[first + i];
        status = gcoll_pair_of_members(context, each->peer, &each->pair);
        if (status == GCOLL_OK)
            status = gcoll_pair_post(each->pair, members->tag, each->size, SIZE_BYTES, false, &each->request);
        if (status != GCOLL_OK)
            status = fall_out(context, status);
    }
    while (status == GCOLL_OK && t->left > 0) {
        const gcoll_wait wait = {any_done, each_waited, t, .timeout_ms = 0, .is_behind = is_from_above};
        status = gcoll_progress_wait(context, &wait);
        for (uint32_t i = 0; i < count && status == GCOLL_OK; i++)
            if (t->all[i].request && t->all[i].request->done)
                status = go_on(context, members, t, &t->all[i], most);
    }
    return status;
}

/* Sends one block of data to `count` members, from the `first` of the sorted list on. */
static gcoll_status send(gcoll_context *context, const gcoll_members *members, uint32_t first, uint32_t count,
                         const void *data, uint64_t bytes) {
    uint8_t size[SIZE_BYTES];
    gcoll_status status = GCOLL_OK;
    gcoll_request **requests = calloc(2 * (size_t)count + 1, sizeof(gcoll_request *));
    if (!requests)
        return no_memory(context, 2 * (uint64_t)count * sizeof(gcoll_request *));
    gcoll_put_le(size, bytes, SIZE_BYTES);
    for (uint32_t i = 0; i < count && status == GCOLL_OK; i++) {
        gcoll_pair *pair;
        status = gcoll_pair_of_members(context, members->sorted[first + i], &pair);
        if (status == GCOLL_OK)
            status = gcoll_pair_post(pair, members->tag, size, sizeof size, true, &requests[2 * i]);
        if (status == GCOLL_OK)
            status = gcoll_pair_post(pair, members->tag, (void *)(uintptr_t)data, bytes, true,
                                     &requests[2 * i + 1]);
        if (status != GCOLL_OK)
            status = fall_out(context, status);
    }
    for (uint32_t i = 0; i < 2 * count; i++) {
        const gcoll_status sent = requests[i] ? gcoll_request_finish(&requests[i]) : status;
        status = status == GCOLL_OK ? sent : status;
    }
    free(requests);
    return status;
}

/* Gets the root's decision, and passes it on. The root has it in *data already. */
static gcoll_status spread(gcoll_context *context, const gcoll_members *members, uint64_t most,
                           uint8_t **data, uint64_t *bytes) {
    gcoll_status status = GCOLL_OK;
    if (members->place > 0) {
        transfers from = {0};
        status = receive(context, members, (members->place - 1) / FANOUT, 1, most, &from);
        if (status == GCOLL_OK) {
            *data = from.all[0].data;
            *bytes = from.all[0].bytes;
            from.all[0].data = NULL;
        }
        transfers_free(&from);
    }
    return status == GCOLL_OK
               ? send(context, members, first_child(members), children_of(members), *data, *bytes)
               : status;
}

/* ---- The two exchanges -------------------------------------------------------------------- */

/* Compares a member's list with this rank's. */
static gcoll_status compare(gcoll_context *context, const gcoll_members *members, const transfer *from) {
    const uint64_t count = from->bytes / sizeof(uint32_t);
    uint32_t at = 0;
    while (at < count && at < members->count &&
           gcoll_get_le(from->data + at * sizeof(uint32_t), sizeof(uint32_t)) == members->ranks[at])
        at++;
    if (at == count && at == members->count && from->bytes % sizeof(uint32_t) == 0)
        return GCOLL_OK;
    if (at < count && at < members->count)
        gcoll_break(context, GCOLL_ERR_MISMATCH, GCOLL_NO_RANK,
                    "gcoll_context_create_group, tag %u: ranks[%u] is %u on rank %u and %u on rank %u; "
                    "allowed is one list for all members",
                    members->tag, at, members->ranks[at], context->rank,
                    (uint32_t)gcoll_get_le(from->data + at * sizeof(uint32_t), sizeof(uint32_t)), from->peer);
    else
        gcoll_break(
            context, GCOLL_ERR_MISMATCH, GCOLL_NO_RANK,
            "gcoll_context_create_group, tag %u: ranks has %u entries on rank %u and %llu on rank %u; "
            "allowed is one list for all members",
            members->tag, members->count, context->rank, (unsigned long long)count, from->peer);
    return gcoll_context_settle(context);
}

static gcoll_status check_lists(gcoll_context *context, const gcoll_members *members) {
    const uint64_t bytes = (uint64_t)members->count * sizeof(uint32_t);
    transfers below = {0};
    uint8_t *list = malloc(bytes);
    if (!list)
        return no_memory(context, bytes);
    for (uint32_t i = 0; i < members->count; i++)
        gcoll_put_le(list + i * sizeof(uint32_t), members->ranks[i], sizeof(uint32_t));
    gcoll_status status = receive(context, members, first_child(members), children_of(members),
                                  (uint64_t)context->size * sizeof(uint32_t), &below);
    for (uint32_t i = 0; i < below.count && status == GCOLL_OK; i++)
        status = compare(context, members, &below.all[i]);
    transfers_free(&below);
    if (status == GCOLL_OK && members->place > 0)
        status = send(context, members, (members->place - 1) / FANOUT, 1, list, bytes);
    free(list);
    return status;
}

static gcoll_status agree(gcoll_context *context, const gcoll_members *members, void *word, uint32_t bytes) {
    uint8_t *said = NULL;
    uint64_t said_bytes = bytes;
    gcoll_status status = check_lists(context, members);
    if (status != GCOLL_OK)
        return status;
    if (members->place == 0) {
        said = malloc(bytes);
        if (!said)
            return no_memory(context, bytes);
        memcpy(said, word, bytes);
    }
    status = spread(context, members, bytes, &said, &said_bytes);
    if (status == GCOLL_OK && said_bytes != bytes) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, parent_of(members),
                    "group of %u ranks, tag %u: rank %u sent %llu bytes; allowed are %u", members->count,
                    members->tag, parent_of(members), (unsigned long long)said_bytes, bytes);
        status = gcoll_context_settle(context);
    }
    if (status == GCOLL_OK)
        memcpy(word, said, bytes);
    free(said);
    return status;
}

static void put_block(uint8_t *at, uint32_t place, const void *block, uint32_t bytes) {
    gcoll_put_le(at, place, sizeof(uint32_t));
    gcoll_put_le(at + sizeof(uint32_t), bytes, sizeof(uint32_t));
    memcpy(at + HEAD_BYTES, block, bytes);
}

static gcoll_status gather(gcoll_context *context, const gcoll_members *members, const void *block,
                           uint32_t bytes, uint64_t most, uint8_t **all, uint64_t *all_bytes) {
    transfers below = {0};
    uint8_t *joined = NULL;
    uint64_t used = HEAD_BYTES + (uint64_t)bytes;
    gcoll_status status = receive(context, members, first_child(members), children_of(members), most, &below);
    for (uint32_t i = 0; i < below.count && status == GCOLL_OK; i++)
        used += below.all[i].bytes;
    if (status == GCOLL_OK) {
        joined = malloc(used);
        status = joined ? GCOLL_OK : no_memory(context, used);
    }
    if (status == GCOLL_OK) {
        put_block(joined, members->place, block, bytes);
        used = HEAD_BYTES + (uint64_t)bytes;
        for (uint32_t i = 0; i < below.count; i++) {
            memcpy(joined + used, below.all[i].data, below.all[i].bytes);
            used += below.all[i].bytes;
        }
    }
    transfers_free(&below);
    if (status == GCOLL_OK && members->place > 0) {
        status = send(context, members, (members->place - 1) / FANOUT, 1, joined, used);
        free(joined);
        joined = NULL;
    }
    if (status == GCOLL_OK)
        status = spread(context, members, most, &joined, &used);
    if (status != GCOLL_OK) {
        free(joined);
        return status;
    }
    *all = joined;
    *all_bytes = used;
    return GCOLL_OK;
}

gcoll_status gcoll_members_agree(gcoll_context *context, const gcoll_members *members, void *word,
                                 uint32_t bytes) {
    context->runs->members = members; /* errors name the exchange */
    gcoll_status status = agree(context, members, word, bytes);
    context->runs->members = NULL;
    return status;
}

gcoll_status gcoll_members_gather(gcoll_context *context, const gcoll_members *members, const void *block,
                                  uint32_t bytes, uint32_t most, uint8_t **all, uint64_t *all_bytes) {
    const uint64_t limit = (uint64_t)members->count * (HEAD_BYTES + (uint64_t)most);
    context->runs->members = members;
    gcoll_status status = gather(context, members, block, bytes, limit, all, all_bytes);
    context->runs->members = NULL;
    return status;
}
