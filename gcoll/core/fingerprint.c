/*
 * gcoll/core/fingerprint.c - tells ranks that call different operations from one another.
 *
 * A fingerprint says in 32 bytes what an operation is. It travels ahead of the first message of an operation
 * on each pair, and whoever receives it compares: at once if the operation has begun here, else when it
 * begins.
 */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/core/core_internal.h"

/* Byte offsets; numbers are little-endian. */
enum {
    AT_COLLECTIVE = 0,
    AT_TYPE = 1,
    AT_OP = 2,
    AT_FLAGS = 3,
    AT_ROOT = 4, /* of a pairwise exchange, the number of exchanges */
    AT_COUNT = 8,
    AT_PLAN = 16,
    AT_ALGORITHM = 24,
    AT_EXTRA = 28 /* of an average over several buffers, their number; of blocks, a hash of their sizes */
};

/* Flags. */
enum {
    FLAG_ORDERED = 1, /* the operation does not commute */
    FLAG_BLOCKS = 2,  /* of different sizes */
    FLAG_EACH = 4,    /* the count is that of one block */
    FLAG_HOSTS = 8,   /* planned by which ranks share a host */
    FLAG_FOR_YOU = 16 /* the count is that of the sender's block for the receiver */
};

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

/* The blocks of an alltoall are each rank's own, so neither they nor their sum are compared. What one rank
 * has for another is said in the fingerprint that goes there. */
static void put_count(uint8_t *bytes, const gcoll_context *context, const gcoll_call *call) {
    const bool unequal = call->blocks_hash != 0;
    const bool own = gcoll_call_has_own_blocks(call);
    const bool each = !unequal && gcoll_collective_has_blocks((gcoll_collective)call->collective);
    uint64_t extra = call->op == GCOLL_AVG ? call->buffers : 0; /* its divisor counts them */
    if (unequal)
        extra = own ? 0 : call->blocks_hash ^ call->blocks_hash >> 32;
    bytes[AT_FLAGS] = (uint8_t)((call->commutative ? 0 : FLAG_ORDERED) | (unequal ? FLAG_BLOCKS : 0) |
                                (each ? FLAG_EACH : 0));
    gcoll_put_le(bytes + AT_COUNT, own ? 0 : each ? call->count / context->size : call->count, 8);
    gcoll_put_le(bytes + AT_EXTRA, extra, 4);
}

void gcoll_fingerprint_make(const gcoll_context *context, const gcoll_call *call, const gcoll_choice *choice,
                            bool by_hosts, gcoll_fingerprint *fingerprint) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    gcoll_choice_format(choice, text, sizeof text);
    uint8_t *bytes = fingerprint->bytes;
    memset(bytes, 0, sizeof fingerprint->bytes);
    bytes[AT_COLLECTIVE] = (uint8_t)call->collective;
    bytes[AT_TYPE] = (uint8_t)call->type;
    bytes[AT_OP] = (uint8_t)call->op;
    gcoll_put_le(bytes + AT_ROOT, call->collective == GCOLL_PAIRWISE_EXCHANGE ? call->exchanges : call->root,
                 4);
    gcoll_put_le(bytes + AT_PLAN, hash_text(text) ^ gcoll_arrival_mark(context, call), 8);
    gcoll_put_le(bytes + AT_ALGORITHM, index_of(choice->algorithm), 4);
    put_count(bytes, context, call);
    if (by_hosts)
        bytes[AT_FLAGS] |= FLAG_HOSTS;
}

void gcoll_fingerprint_for_peer(const gcoll_fingerprint *fingerprint, uint64_t count,
                                gcoll_fingerprint *sent) {
    *sent = *fingerprint;
    sent->bytes[AT_FLAGS] |= FLAG_FOR_YOU;
    gcoll_put_le(sent->bytes + AT_COUNT, count, 8);
}

static const char *algorithm_of(const uint8_t *bytes) {
    uint64_t index = gcoll_get_le(bytes + AT_ALGORITHM, 4);
    return index < algorithm_count()    ? gcoll_algorithms[index]->name
           : index == algorithm_count() ? "a registered algorithm"
                                        : "an unknown algorithm";
}

/* "allgather_v of 100 float32 from rank 3, sum, by ring": what it has of these. */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t size) {
    const uint8_t *bytes = fingerprint->bytes;
    const gcoll_collective collective = (gcoll_collective)bytes[AT_COLLECTIVE];
    const bool blocks = bytes[AT_FLAGS] & FLAG_BLOCKS, each = bytes[AT_FLAGS] & FLAG_EACH;
    const unsigned long long count = gcoll_get_le(bytes + AT_COUNT, 8),
                             root = gcoll_get_le(bytes + AT_ROOT, 4);
    const char *name = gcoll_collective_name(collective), *type = gcoll_type_name((gcoll_type)bytes[AT_TYPE]);
    char what[64] = "", where[48] = "", how[24] = "";
    if ((unsigned)collective >= GCOLL_COLLECTIVE_COUNT) {
        snprintf(text, size, "an unknown collective");
        return;
    }
    if (collective == GCOLL_ALLTOALL && blocks)
        snprintf(what, sizeof what, "_v of %s", type);
    else if (collective != GCOLL_BARRIER)
        snprintf(what, sizeof what, "%s of %llu %s%s", blocks ? "_v" : "", count, type,
                 each ? " a rank" : "");
    if (collective == GCOLL_REDUCE || collective == GCOLL_GATHER)
        snprintf(where, sizeof where, " to rank %llu", root);
    else if (gcoll_collective_has_root(collective))
        snprintf(where, sizeof where, " from rank %llu", root);
    else if (collective == GCOLL_PAIRWISE_EXCHANGE && root > 0)
        snprintf(where, sizeof where, " in %llu exchanges", root);
    if (gcoll_collective_reduces(collective))
        snprintf(how, sizeof how, ", %s,", gcoll_op_name((gcoll_op)bytes[AT_OP]));
    snprintf(text, size, "%s%s%s%s by %s", name, what, where, how, algorithm_of(bytes));
}

/* What two that read the same differ in. */
static const char *hidden_difference(const uint8_t *theirs, const uint8_t *ours) {
    if (memcmp(theirs, ours, GCOLL_FINGERPRINT_BYTES) == 0)
        return "";
    if ((ours[AT_FLAGS] & FLAG_BLOCKS) &&
        gcoll_get_le(theirs + AT_EXTRA, 4) != gcoll_get_le(ours + AT_EXTRA, 4))
        return " (counts of single ranks differ)";
    if ((theirs[AT_FLAGS] ^ ours[AT_FLAGS]) & FLAG_HOSTS)
        return " (named on one of them, chosen by auto on the other)";
    return " (options differ)";
}

/* Both called the same alltoall_v; whether the peer sends as much as is expected of it. */
static void compare_block(gcoll_context *context, uint32_t peer, gcoll_begun *ours, uint64_t sent) {
    const uint64_t expected = gcoll_recv_count(&ours->entry->plan->problem, peer);
    if (sent == expected)
        return;
    ours->mismatched = true;
    gcoll_break(
        context, GCOLL_ERR_MISMATCH, peer,
        "operation #%llu: alltoall_v: rank %u sends %llu elements to rank %u, whose recv_counts[%u] is "
        "%llu",
        (unsigned long long)ours->sequence, peer, (unsigned long long)sent, context->rank, peer,
        (unsigned long long)expected);
}

static void compare(gcoll_context *context, uint32_t peer, gcoll_fingerprint theirs, gcoll_begun *begun) {
    const gcoll_fingerprint *ours = &begun->fingerprint;
    const uint64_t sequence = begun->sequence;
    const uint64_t sent = gcoll_get_le(theirs.bytes + AT_COUNT, 8);
    const bool has_block = begun->entry && (theirs.bytes[AT_FLAGS] & FLAG_FOR_YOU);
    if (has_block) {
        theirs.bytes[AT_FLAGS] &= (uint8_t)~FLAG_FOR_YOU;
        gcoll_put_le(theirs.bytes + AT_COUNT, 0, 8);
    }
    if (memcmp(&theirs, ours, sizeof *ours) == 0) {
        if (has_block)
            compare_block(context, peer, begun, sent);
        return;
    }
    begun->mismatched = true;
    char their_text[112], our_text[112];
    gcoll_fingerprint_describe(&theirs, their_text, sizeof their_text);
    gcoll_fingerprint_describe(ours, our_text, sizeof our_text);
    const char *hint = strcmp(their_text, our_text) == 0 ? hidden_difference(theirs.bytes, ours->bytes) : "";
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

void gcoll_fingerprint_begin(gcoll_context *context, uint64_t sequence, gcoll_cache_entry *entry) {
    gcoll_begun *begun = &context->history[sequence % GCOLL_HISTORY];
    if (begun->entry)
        gcoll_cache_put(begun->entry);
    *begun = (gcoll_begun){.sequence = sequence, .fingerprint = entry->fingerprint};
    if (gcoll_call_has_own_blocks(&entry->call)) {
        begun->entry = entry;
        entry->users++;
    }
    gcoll_early **link = &context->early[sequence % GCOLL_HISTORY];
    while (*link) {
        gcoll_early *early = *link;
        if (early->sequence != sequence) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        context->peers[early->peer].early--;
        compare(context, early->peer, early->fingerprint, begun);
        early->next = context->spare;
        context->spare = early;
    }
}

void gcoll_fingerprint_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                               const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_fingerprint theirs;
    memcpy(theirs.bytes, bytes, sizeof theirs.bytes);
    if (sequence <= context->sequence) {
        gcoll_begun *ours = &context->history[sequence % GCOLL_HISTORY];
        if (ours->sequence == sequence)
            compare(context, peer, theirs, ours);
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

bool gcoll_fingerprint_mismatched(const gcoll_context *context, uint64_t sequence) {
    const gcoll_begun *begun = &context->history[sequence % GCOLL_HISTORY];
    return begun->sequence == sequence && begun->mismatched;
}

void gcoll_fingerprint_forget(gcoll_context *context) {
    while (context->blocks) {
        gcoll_early_block *block = context->blocks;
        context->blocks = block->next;
        gcoll_release(context, block, sizeof *block);
    }
}
