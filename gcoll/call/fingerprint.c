/* gcoll/call/fingerprint.c - makes the fingerprint of an operation, 32 bytes by which peers detect that
 * they called different operations. run/openings.c compares them. */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/base/hash.h"
#include "gcoll/call/call.h"

/* Byte offsets; numbers are little-endian. */
enum {
    AT_COLLECTIVE = 0,
    AT_TYPE = 1,
    AT_OP = 2, /* also HAS_POSTSCALE, and, from bit ORDER_SHIFT on, the tree: 0 or a gcoll_order */
    AT_FLAGS = 3,
    AT_ROOT = 4, /* root; pairwise exchange: the number of exchanges; allreduce: of buffers in a list */
    AT_COUNT = 8,
    AT_PLAN = 16,
    AT_ALGORITHM = 24,
    AT_ELEMENT =
        26,       /* size of an element of the caller's own; 0: an element of the type. float32: codec_word */
    AT_EXTRA = 28 /* average, or a tree: the number of buffers; unequal blocks, or a list: a hash of their
                   * sizes; with HAS_POSTSCALE, a hash of the factor is added */
};

#define HAS_POSTSCALE 32
#define ORDER_SHIFT   6
_Static_assert(GCOLL_USER < HAS_POSTSCALE && GCOLL_ORDER_LEFT < 4,
               "operation, factor and tree fit in a byte");

/* Flags. */
enum {
    FLAG_ORDERED = 1,   /* the operation does not commute */
    FLAG_BLOCKS = 2,    /* blocks have different sizes; allreduce: a list of buffers */
    FLAG_EACH = 4,      /* AT_COUNT is the size of one block; with FLAG_BLOCKS: counts at the root */
    FLAG_HOSTS = 8,     /* the plan depends on which ranks share a host */
    FLAG_FOR_YOU = 16,  /* AT_COUNT is the sender's block for the receiver */
    FLAG_ON_RANKS = 32, /* options.same: on ranks */
    FLAG_IN_RUNS = 64,  /* options.same: in runs */
    FLAG_UNIFORM = 128  /* options.uniform */
};

static gcoll_op op_of(const uint8_t *bytes) {
    return (gcoll_op)(bytes[AT_OP] & (HAS_POSTSCALE - 1));
}

static gcoll_order order_of(const uint8_t *bytes) {
    const gcoll_order order = (gcoll_order)(bytes[AT_OP] >> ORDER_SHIFT);
    return order == GCOLL_ORDER_DEFAULT ? GCOLL_ORDER_ANY : order;
}

static uint32_t algorithm_count(void) {
    uint32_t count = 0;
    while (gcoll_algorithms[count])
        count++;
    return count;
}

/* The index in the table. For an algorithm that users added, the length of the table. */
static uint32_t index_of(const gcoll_algorithm *algorithm) {
    uint32_t index = 0;
    while (gcoll_algorithms[index] && gcoll_algorithms[index] != algorithm)
        index++;
    return index;
}

/* A codec but for its seed: its kind, whether it is stochastic, and its block. 0: none. */
enum { CODEC_KIND_BITS = 3 };
_Static_assert(GCOLL_CODEC_COUNT <= 1 << CODEC_KIND_BITS &&
                   GCOLL_CODEC_BLOCK_MAX / GCOLL_CODEC_BLOCK_STEP < 1 << 12,
               "it fits into 16 bits");

static uint64_t codec_word(const gcoll_codec *codec) {
    return codec->kind | (uint64_t)codec->is_stochastic << CODEC_KIND_BITS |
           (uint64_t)(codec->block / GCOLL_CODEC_BLOCK_STEP) << (CODEC_KIND_BITS + 1);
}

/* " as int8:block=128", or "" for elements that are not encoded. */
static void describe_codec(uint64_t word, char *text, size_t size) {
    const gcoll_codec codec = {.kind = (uint16_t)(word & ((1u << CODEC_KIND_BITS) - 1)),
                               .block = (uint32_t)(word >> (CODEC_KIND_BITS + 1)) * GCOLL_CODEC_BLOCK_STEP};
    char name[GCOLL_CODEC_TEXT_MAX];
    gcoll_codec_format(&codec, name);
    snprintf(text, size, "%s%s%s", word ? " as " : "", word ? name : "",
             word >> CODEC_KIND_BITS & 1 ? " with a seed" : "");
}

/* Writes count and AT_EXTRA. If each rank knows other block sizes, as in an alltoall_v, neither they nor
 * their sum are compared, and gcoll_fingerprint_for_peer puts in the block for that peer. */
static void put_count(uint8_t *bytes, const gcoll_context *context, const gcoll_call *call) {
    const bool unequal = call->blocks_hash != 0;
    const bool own = gcoll_call_has_own_blocks(call);
    const bool each = !unequal && gcoll_collective_has_blocks((gcoll_collective)call->collective);
    const gcoll_order order = gcoll_call_order(call);
    const bool counts_buffers = call->op == GCOLL_AVG || order != GCOLL_ORDER_ANY;
    uint64_t extra = counts_buffers ? call->buffers : 0; /* a part of the divisor, or leaves of the tree */
    if (order != GCOLL_ORDER_ANY)
        bytes[AT_OP] |= (uint8_t)((unsigned)order << ORDER_SHIFT);
    if (unequal)
        extra = own ? 0 : (call->blocks_hash ^ call->blocks_hash >> 32) + extra;
    if (call->postscale != 0) {
        const uint64_t hash = gcoll_hash_word(GCOLL_HASH_START, call->postscale);
        extra += hash ^ hash >> 32;
    }
    bytes[AT_FLAGS] = (uint8_t)((call->commutative ? 0 : FLAG_ORDERED) | (unequal ? FLAG_BLOCKS : 0) |
                                (each || call->counts_at_root ? FLAG_EACH : 0));
    gcoll_put_le(bytes + AT_COUNT, own ? 0 : each ? call->count / context->size : call->count, 8);
    gcoll_put_le(bytes + AT_EXTRA, extra, 4);
}

void gcoll_fingerprint_make(const gcoll_context *context, const gcoll_call *call,
                            const gcoll_planned *planned, gcoll_fingerprint *fingerprint) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    gcoll_choice_format(planned->choice, text, sizeof text);
    uint8_t *bytes = fingerprint->bytes;
    memset(bytes, 0, sizeof fingerprint->bytes);
    bytes[AT_COLLECTIVE] = (uint8_t)call->collective;
    bytes[AT_TYPE] = (uint8_t)call->type;
    bytes[AT_OP] = (uint8_t)(call->op | (call->postscale != 0 ? HAS_POSTSCALE : 0));
    gcoll_put_le(bytes + AT_ROOT,
                 call->collective == GCOLL_PAIRWISE_EXCHANGE ? call->exchanges
                 : call->collective == GCOLL_ALLREDUCE       ? call->out_list
                                                             : call->root,
                 4);
    gcoll_put_le(bytes + AT_PLAN,
                 gcoll_hash_word(gcoll_hash_text(GCOLL_HASH_START, text), call->codec.seed) ^ planned->mark,
                 8);
    gcoll_put_le(bytes + AT_ALGORITHM, index_of(planned->choice->algorithm), 2);
    gcoll_put_le(bytes + AT_ELEMENT,
                 gcoll_call_has_own_elements(call) ? call->element_bytes : codec_word(&call->codec), 2);
    put_count(bytes, context, call);
    if (planned->by_hosts)
        bytes[AT_FLAGS] |= FLAG_HOSTS;
    if (call->needs & GCOLL_CLAIM_RANK_IDENTICAL)
        bytes[AT_FLAGS] |= FLAG_ON_RANKS;
    if (gcoll_call_is_fixed(call))
        bytes[AT_FLAGS] |= FLAG_IN_RUNS;
    if (call->uniform)
        bytes[AT_FLAGS] |= FLAG_UNIFORM;
}

void gcoll_fingerprint_for_peer(const gcoll_fingerprint *fingerprint, uint64_t count,
                                gcoll_fingerprint *sent) {
    *sent = *fingerprint;
    sent->bytes[AT_FLAGS] |= FLAG_FOR_YOU;
    gcoll_put_le(sent->bytes + AT_COUNT, count, 8);
}

bool gcoll_fingerprint_for_all(gcoll_fingerprint *fingerprint, uint64_t *count) {
    uint8_t *bytes = fingerprint->bytes;
    if (!(bytes[AT_FLAGS] & FLAG_FOR_YOU))
        return false;
    *count = gcoll_get_le(bytes + AT_COUNT, 8);
    bytes[AT_FLAGS] &= (uint8_t)~FLAG_FOR_YOU;
    gcoll_put_le(bytes + AT_COUNT, 0, 8);
    return true;
}

static const char *algorithm_of(const uint8_t *bytes) {
    uint64_t index = gcoll_get_le(bytes + AT_ALGORITHM, 2);
    return index < algorithm_count()    ? gcoll_algorithms[index]->name
           : index == algorithm_count() ? "a registered algorithm"
                                        : "an unknown algorithm";
}

/* For example "float32", "float32 as bf16", or "elements of 12 bytes". */
static void describe_element(const uint8_t *bytes, char *text, size_t size) {
    const unsigned own = (unsigned)gcoll_get_le(bytes + AT_ELEMENT, 2);
    char codec[GCOLL_CODEC_TEXT_MAX + 24] = "";
    if (bytes[AT_TYPE] == GCOLL_FLOAT32)
        describe_codec(own, codec, sizeof codec);
    else if (own > 0) {
        snprintf(text, size, "elements of %u bytes", own);
        return;
    }
    snprintf(text, size, "%s%s", gcoll_type_name((gcoll_type)bytes[AT_TYPE]), codec);
}

/* For example "allgather_v of 100 float32 from rank 3, sum, by ring". Parts that the collective does not
 * have are left out. */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t size) {
    const uint8_t *bytes = fingerprint->bytes;
    const gcoll_collective collective = (gcoll_collective)bytes[AT_COLLECTIVE];
    const bool blocks = bytes[AT_FLAGS] & FLAG_BLOCKS, each = bytes[AT_FLAGS] & FLAG_EACH;
    const unsigned long long count = gcoll_get_le(bytes + AT_COUNT, 8),
                             root = gcoll_get_le(bytes + AT_ROOT, 4);
    const char *name = gcoll_collective_name(collective);
    char type[96], what[160] = "", where[48] = "", how[48] = "";
    describe_element(bytes, type, sizeof type);
    if ((unsigned)collective >= GCOLL_COLLECTIVE_COUNT) {
        snprintf(text, size, "an unknown collective");
        return;
    }
    if (blocks && (collective == GCOLL_ALLTOALL || each))
        snprintf(what, sizeof what, "_v of %s%s", type, each ? " with counts at the root" : "");
    else if (collective == GCOLL_ALLREDUCE && blocks)
        snprintf(what, sizeof what, "_list of %llu %s in %llu buffers", count, type, root);
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
        snprintf(how, sizeof how, ", %s%s,", gcoll_op_name(op_of(bytes)),
                 bytes[AT_OP] & HAS_POSTSCALE ? " with a postscale" : "");
    snprintf(text, size, "%s%s%s%s by %s", name, what, where, how, algorithm_of(bytes));
}

/* Where the call needs the same bits. Bits can differ between ranks only in an allreduce. */
static const char *same_of(const uint8_t *bytes) {
    if (bytes[AT_FLAGS] & FLAG_IN_RUNS)
        return "in runs";
    if (bytes[AT_COLLECTIVE] != GCOLL_ALLREDUCE)
        return "not in runs";
    return bytes[AT_FLAGS] & FLAG_ON_RANKS ? "on ranks" : "nowhere";
}

void gcoll_fingerprint_hint(const gcoll_fingerprint *their, const gcoll_fingerprint *our, uint32_t peer,
                            uint32_t rank, bool reads_the_same, char *text, size_t size) {
    const uint8_t *theirs = their->bytes, *ours = our->bytes;
    const unsigned flags = (unsigned)ours[AT_FLAGS] ^ theirs[AT_FLAGS];
    const uint32_t their_extra = (uint32_t)gcoll_get_le(theirs + AT_EXTRA, 4);
    const uint32_t our_extra = (uint32_t)gcoll_get_le(ours + AT_EXTRA, 4);
    const bool same_sum = theirs[AT_COLLECTIVE] == ours[AT_COLLECTIVE] && theirs[AT_TYPE] == ours[AT_TYPE] &&
                          op_of(theirs) == op_of(ours); /* others may differ legitimately */
    if (flags & FLAG_UNIFORM)
        snprintf(text, size, " (options.uniform: rank %u %d, rank %u %d)", peer,
                 theirs[AT_FLAGS] & FLAG_UNIFORM ? 1 : 0, rank, ours[AT_FLAGS] & FLAG_UNIFORM ? 1 : 0);
    else if (same_sum && order_of(theirs) != order_of(ours))
        snprintf(text, size, " (options.order: rank %u %s, rank %u %s)", peer,
                 gcoll_order_name(order_of(theirs)), rank, gcoll_order_name(order_of(ours)));
    else if (same_sum && (flags & (FLAG_ON_RANKS | FLAG_IN_RUNS)))
        snprintf(text, size, " (options.same: rank %u %s, rank %u %s)", peer, same_of(theirs), rank,
                 same_of(ours));
    else if (!reads_the_same || memcmp(theirs, ours, GCOLL_FINGERPRINT_BYTES) == 0)
        snprintf(text, size, "%s", "");
    else if (their_extra != our_extra && (ours[AT_FLAGS] & FLAG_BLOCKS) &&
             ours[AT_COLLECTIVE] == GCOLL_ALLREDUCE)
        snprintf(text, size, " (counts of single buffers%s differ)",
                 ours[AT_OP] & HAS_POSTSCALE ? ", or options.postscale," : "");
    else if (their_extra != our_extra && (ours[AT_FLAGS] & FLAG_BLOCKS))
        snprintf(text, size, " (counts of single ranks%s%s differ)",
                 op_of(ours) == GCOLL_AVG || order_of(ours) != GCOLL_ORDER_ANY ? ", or numbers of buffers,"
                                                                               : "",
                 ours[AT_OP] & HAS_POSTSCALE ? ", or options.postscale," : "");
    else if (their_extra != our_extra && (ours[AT_OP] & HAS_POSTSCALE))
        snprintf(text, size, " (options.postscale%s differs)",
                 op_of(ours) == GCOLL_AVG || order_of(ours) != GCOLL_ORDER_ANY ? ", or the number of buffers,"
                                                                               : "");
    else if (their_extra != our_extra)
        snprintf(text, size, " (%s: rank %u of %u buffers, rank %u of %u)",
                 op_of(ours) == GCOLL_AVG ? "an average" : "options.order", peer, their_extra, rank,
                 our_extra);
    else if (flags & FLAG_ORDERED)
        snprintf(text, size, " (options.user_op->commutative: rank %u %d, rank %u %d)", peer,
                 theirs[AT_FLAGS] & FLAG_ORDERED ? 0 : 1, rank, ours[AT_FLAGS] & FLAG_ORDERED ? 0 : 1);
    else if (flags & FLAG_HOSTS)
        snprintf(text, size, " (named on one of them, chosen by auto on the other)");
    else if (gcoll_get_le(ours + AT_ELEMENT, 2) != gcoll_get_le(theirs + AT_ELEMENT, 2))
        snprintf(text, size, "%s", "");
    else if (ours[AT_TYPE] == GCOLL_FLOAT32 && (ours[AT_ELEMENT] >> CODEC_KIND_BITS & 1))
        snprintf(text, size, " (the seeds of options.codec, or the algorithm's options, differ)");
    else
        snprintf(text, size, " (the algorithm's options differ)");
}
