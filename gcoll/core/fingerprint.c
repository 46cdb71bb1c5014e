/*
 * gcoll/core/fingerprint.c - tells ranks that call different operations from one another.
 *
 * A fingerprint says in 32 bytes what an operation is. It travels ahead of the first message of an operation
 * on each pair, and whoever receives it compares: at once if the operation has begun here, else when it
 * begins.
 */
#include <stdio.h>
#include <string.h>

#include "gcoll/core/core_internal.h"

/* Byte offsets; numbers are little-endian. */
enum {
    AT_COLLECTIVE = 0,
    AT_TYPE = 1,
    AT_OP = 2,
    AT_ORDERED = 3,
    AT_ROOT = 4,
    AT_COUNT = 8,
    AT_PLAN = 16,
    AT_ALGORITHM = 24,
    AT_BUFFERS = 28
};

static void put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint64_t hash_text(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t algorithm_count(void) {
    uint32_t count = 0;
    while (gcoll_algorithms[count])
        count++;
    return count;
}

/* The number in the table; what users added has none. */
static uint32_t index_of(const gcoll_algorithm *algorithm) {
    uint32_t index = 0;
    while (gcoll_algorithms[index] && gcoll_algorithms[index] != algorithm)
        index++;
    return index;
}

void gcoll_fingerprint_make(const gcoll_call *call, const gcoll_choice *choice,
                            gcoll_fingerprint *fingerprint) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    gcoll_choice_format(choice, text, sizeof text);
    uint8_t *bytes = fingerprint->bytes;
    memset(bytes, 0, sizeof fingerprint->bytes);
    bytes[AT_COLLECTIVE] = (uint8_t)call->collective;
    bytes[AT_TYPE] = (uint8_t)call->type;
    bytes[AT_OP] = (uint8_t)call->op;
    bytes[AT_ORDERED] = call->commutative ? 0 : 1;
    put(bytes + AT_ROOT, call->root, 4);
    put(bytes + AT_COUNT, call->count, 8);
    put(bytes + AT_PLAN, hash_text(text), 8);
    put(bytes + AT_ALGORITHM, index_of(choice->algorithm), 4);
    /* Only an average needs equal numbers of buffers: its divisor counts them. */
    put(bytes + AT_BUFFERS, call->op == GCOLL_AVG ? call->buffers : 0, 4);
}

void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t size) {
    const uint8_t *bytes = fingerprint->bytes;
    gcoll_collective collective = (gcoll_collective)bytes[AT_COLLECTIVE];
    uint64_t index = get(bytes + AT_ALGORITHM, 4);
    const char *algorithm =
        index < algorithm_count() ? gcoll_algorithms[index]->name : "an unknown algorithm";
    unsigned long long count = get(bytes + AT_COUNT, 8);
    const char *type = gcoll_type_name((gcoll_type)bytes[AT_TYPE]);
    switch (collective) {
    case GCOLL_ALLREDUCE:
        snprintf(text, size, "allreduce of %llu %s, %s, by %s", count, type,
                 gcoll_op_name((gcoll_op)bytes[AT_OP]), algorithm);
        break;
    case GCOLL_BROADCAST:
        snprintf(text, size, "broadcast of %llu %s from rank %llu by %s", count, type,
                 (unsigned long long)get(bytes + AT_ROOT, 4), algorithm);
        break;
    case GCOLL_BARRIER:
        snprintf(text, size, "barrier by %s", algorithm);
        break;
    default:
        snprintf(text, size, "an unknown collective");
    }
}

static void compare(gcoll_context *context, uint32_t peer, uint64_t sequence, const gcoll_fingerprint *theirs,
                    const gcoll_fingerprint *ours) {
    if (memcmp(theirs, ours, sizeof *ours) == 0)
        return;
    if (context->mismatched == 0)
        context->mismatched = sequence;
    char their_text[96], our_text[96];
    gcoll_fingerprint_describe(theirs, their_text, sizeof their_text);
    gcoll_fingerprint_describe(ours, our_text, sizeof our_text);
    const char *hint = strcmp(their_text, our_text) == 0 ? " (options differ)" : "";
    gcoll_break(context, GCOLL_ERR_MISMATCH, peer, "operation #%llu: rank %u called %s, rank %u %s%s",
                (unsigned long long)sequence, peer, their_text, context->rank, our_text, hint);
}

/* Peers are mostly one operation ahead at the most, so one block serves for good. */
static bool make_spare(gcoll_context *context) {
    gcoll_early_block *block = gcoll_allocate(context, sizeof *block);
    if (!block)
        return false;
    block->next = context->blocks;
    context->blocks = block;
    for (size_t i = 0; i < GCOLL_HISTORY; i++) {
        block->entries[i].next = context->spare;
        context->spare = &block->entries[i];
    }
    return true;
}

void gcoll_fingerprint_begin(gcoll_context *context, uint64_t sequence,
                             const gcoll_fingerprint *fingerprint) {
    gcoll_begun *begun = &context->history[sequence % GCOLL_HISTORY];
    begun->sequence = sequence;
    begun->fingerprint = *fingerprint;
    gcoll_early **link = &context->early[sequence % GCOLL_HISTORY];
    while (*link) {
        gcoll_early *early = *link;
        if (early->sequence != sequence) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        context->peers[early->peer].early--;
        compare(context, early->peer, sequence, &early->fingerprint, fingerprint);
        early->next = context->spare;
        context->spare = early;
    }
}

void gcoll_fingerprint_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                               const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_fingerprint theirs;
    memcpy(theirs.bytes, bytes, sizeof theirs.bytes);
    if (sequence <= context->sequence) {
        const gcoll_begun *ours = &context->history[sequence % GCOLL_HISTORY];
        if (ours->sequence == sequence)
            compare(context, peer, sequence, &theirs, &ours->fingerprint);
        return;
    }
    if (context->peers[peer].early == GCOLL_HISTORY)
        return; /* what a peer can make us hold is bounded; this one goes unchecked */
    if (!context->spare && !make_spare(context)) {
        gcoll_break(context, GCOLL_ERR_NO_MEMORY, GCOLL_NO_RANK, "%s", gcoll_last_error());
        return;
    }
    gcoll_early *early = context->spare;
    context->spare = early->next;
    gcoll_early **bucket = &context->early[sequence % GCOLL_HISTORY];
    *early = (gcoll_early){sequence, theirs, peer, *bucket};
    *bucket = early;
    context->peers[peer].early++;
}

void gcoll_fingerprint_forget(gcoll_context *context) {
    while (context->blocks) {
        gcoll_early_block *block = context->blocks;
        context->blocks = block->next;
        gcoll_release(context, block, sizeof *block);
    }
}
