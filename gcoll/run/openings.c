/*
 * gcoll/run/openings.c - compares the fingerprints of operations, to find ranks that make different calls.
 *
 * A fingerprint travels ahead of the first message of an operation on each pair. The receiver compares it at
 * once if the operation has begun here, else when it begins. It also remembers which fingerprints arrived: a
 * message of an operation without a fingerprint is an error (engine.c).
 */
#include <string.h>

#include "gcoll/run/engine.h"

/* The fingerprint of an operation that a peer began before this rank. */
struct gcoll_early {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
    uint32_t peer;
    gcoll_early *next;
};

typedef struct gcoll_early_block {
    struct gcoll_early_block *next;
    gcoll_early entries[GCOLL_HISTORY];
} gcoll_early_block;

/* Both ranks made the same call with blocks of their own: checks that the peer sends as many elements as this
 * rank expects. */
static void compare_block(gcoll_context *context, uint32_t peer, gcoll_begun *ours, uint64_t sent) {
    const gcoll_problem *problem = &ours->entry->plan->problem;
    const gcoll_collective collective = problem->collective;
    const uint32_t entry = collective == GCOLL_SCATTER ? 0 : peer; /* its own count is all that it has */
    const uint64_t expected = collective == GCOLL_ALLTOALL  ? gcoll_recv_count(problem, peer)
                              : collective == GCOLL_SCATTER ? gcoll_block_count(problem, context->rank)
                                                            : gcoll_block_count(problem, peer);
    if (sent == expected)
        return;
    ours->mismatched = true;
    gcoll_break(context, GCOLL_ERR_MISMATCH, GCOLL_NO_RANK,
                "operation #%llu: %s_v: rank %u sends %llu elements to rank %u, whose %scounts[%u] is %llu",
                (unsigned long long)ours->sequence, gcoll_collective_name(collective), peer,
                (unsigned long long)sent, context->rank, collective == GCOLL_ALLTOALL ? "recv_" : "", entry,
                (unsigned long long)expected);
}

/* Compares fingerprints that differ, or that carry the size of a block. */
static void compare_closely(gcoll_context *context, uint32_t peer, gcoll_fingerprint theirs,
                            gcoll_begun *begun) {
    const gcoll_fingerprint *ours = &begun->fingerprint;
    uint64_t sent = 0;
    const bool has_block = begun->entry && gcoll_fingerprint_for_all(&theirs, &sent);
    if (memcmp(&theirs, ours, sizeof *ours) == 0) {
        if (has_block)
            compare_block(context, peer, begun, sent);
        return;
    }
    begun->mismatched = true;
    char their_text[112], our_text[112], hint[96];
    gcoll_fingerprint_describe(&theirs, their_text, sizeof their_text);
    gcoll_fingerprint_describe(ours, our_text, sizeof our_text);
    gcoll_fingerprint_hint(&theirs, ours, peer, context->rank, strcmp(their_text, our_text) == 0, hint,
                           sizeof hint);
    gcoll_break(context, GCOLL_ERR_MISMATCH, GCOLL_NO_RANK,
                "operation #%llu: rank %u called %s, rank %u %s%s", (unsigned long long)begun->sequence, peer,
                their_text, context->rank, our_text, hint);
}

static inline void compare(gcoll_context *context, uint32_t peer, const gcoll_fingerprint *theirs,
                           gcoll_begun *begun) {
    if (begun->entry || memcmp(theirs, &begun->fingerprint, sizeof *theirs) != 0)
        compare_closely(context, peer, *theirs, begun);
}

/* Allocates a block of entries. Most peers are at most one operation ahead, so one block usually lasts. */
static gcoll_early *make_spare(gcoll_context *context) {
    gcoll_openings *openings = &context->runs->openings;
    gcoll_early_block *block = gcoll_allocate(context, sizeof *block);
    if (!block)
        return NULL;
    block->next = openings->blocks;
    openings->blocks = block;
    for (size_t i = 1; i < GCOLL_HISTORY; i++) {
        block->entries[i].next = openings->spare;
        openings->spare = &block->entries[i];
    }
    return &block->entries[0];
}

/* An entry that is not in use, or NULL. */
static gcoll_early *take_spare(gcoll_context *context) {
    gcoll_openings *openings = &context->runs->openings;
    gcoll_early *early = openings->spare;
    if (!early)
        return make_spare(context);
    openings->spare = early->next;
    return early;
}

void gcoll_opening_begin(gcoll_context *context, uint64_t sequence, gcoll_cache_entry *entry) {
    gcoll_openings *openings = &context->runs->openings;
    gcoll_begun *begun = &openings->history[sequence % GCOLL_HISTORY];
    if (begun->entry)
        gcoll_cache_put(begun->entry);
    *begun = (gcoll_begun){.sequence = sequence, .fingerprint = entry->fingerprint};
    if (gcoll_call_has_own_blocks(&entry->call)) {
        begun->entry = entry;
        gcoll_cache_hold(entry);
    }
    gcoll_early **link = &openings->early[sequence % GCOLL_HISTORY];
    while (*link) {
        gcoll_early *early = *link;
        if (early->sequence != sequence) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        openings->peers[early->peer].early--;
        compare(context, early->peer, &early->fingerprint, begun);
        early->next = openings->spare;
        openings->spare = early;
    }
}

/* ---- Fingerprints that have arrived ------------------------------------------------------- */

/* Operations that opened->mask covers. The mask is small, as each rank keeps one for every other rank. */
#define WINDOW 16

/* Whether `sequence` is newer than all operations that the peer has opened; else *age is how many operations
 * it lies behind the newest. Numbers wrap: the newer of two is less than half the range ahead. */
static bool is_newer(const gcoll_opened *opened, uint64_t sequence, uint32_t *age) {
    *age = opened->newest - (uint32_t)sequence;
    return opened->mask == 0 || *age > UINT32_MAX / 2;
}

/* Notes an operation that a peer has opened. A newer one moves the window on, and the oldest are forgotten.
 * Returns whether it is newer than all before, so that this is its first fingerprint. */
static inline bool note_opening(gcoll_opened *opened, uint64_t sequence) {
    uint32_t age;
    if (opened->newest + 1 == (uint32_t)sequence) { /* nearly always */
        opened->newest++;
        opened->mask = (uint16_t)((uint32_t)opened->mask << 1 | 1U);
        return true;
    }
    if (is_newer(opened, sequence, &age)) {
        const uint32_t ahead = 0U - age;
        opened->mask = (uint16_t)((ahead < WINDOW ? (uint32_t)opened->mask << ahead : 0U) | 1U);
        opened->newest = (uint32_t)sequence;
        return true;
    }
    if (age < WINDOW)
        opened->mask = (uint16_t)(opened->mask | 1U << age);
    return false;
}

gcoll_opening gcoll_opening_of(const gcoll_context *context, uint32_t peer, uint64_t sequence) {
    const gcoll_opened *opened = &context->runs->openings.peers[peer];
    uint32_t age;
    if (is_newer(opened, sequence, &age))
        return GCOLL_OPENING_MISSING;
    if (age >= WINDOW)
        return GCOLL_OPENING_FORGOTTEN;
    return opened->mask >> age & 1 ? GCOLL_OPENING_CAME : GCOLL_OPENING_MISSING;
}

/* Whether an early fingerprint is entered already. Probes repeat that of an operation which a peer waits in;
 * each copy would take one of its entries, and its later operations would go unchecked. */
static bool is_entered(const gcoll_openings *openings, uint32_t peer, uint64_t sequence,
                       const gcoll_fingerprint *theirs) {
    const gcoll_early *early = openings->early[sequence % GCOLL_HISTORY];
    while (early && (early->sequence != sequence || early->peer != peer ||
                     memcmp(&early->fingerprint, theirs, sizeof *theirs) != 0))
        early = early->next;
    return early;
}

void gcoll_opening_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                           const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_openings *openings = &context->runs->openings;
    gcoll_opened *opened = &openings->peers[peer];
    gcoll_fingerprint theirs;
    memcpy(theirs.bytes, bytes, sizeof theirs.bytes);
    const bool is_first = note_opening(opened, sequence);
    if (sequence <= context->runs->sequence) {
        gcoll_begun *ours = &openings->history[sequence % GCOLL_HISTORY];
        if (ours->sequence == sequence)
            compare(context, peer, &theirs, ours);
        return;
    }
    if (!is_first && is_entered(openings, peer, sequence, &theirs))
        return;
    if (opened->early == GCOLL_HISTORY)
        return; /* a peer may occupy only so many entries; this operation goes unchecked */
    gcoll_early *early = take_spare(context);
    if (!early) {
        gcoll_run_out(context, GCOLL_ERR_NO_MEMORY);
        return;
    }
    gcoll_early **bucket = &openings->early[sequence % GCOLL_HISTORY];
    *early = (gcoll_early){sequence, theirs, peer, *bucket};
    *bucket = early;
    opened->early++;
}

bool gcoll_opening_mismatched(const gcoll_context *context, uint64_t sequence) {
    const gcoll_begun *begun = &context->runs->openings.history[sequence % GCOLL_HISTORY];
    return begun->sequence == sequence && begun->mismatched;
}

/* ---- Life --------------------------------------------------------------------------------- */

gcoll_status gcoll_openings_create(gcoll_context *context) {
    gcoll_openings *openings = &context->runs->openings;
    openings->peers = gcoll_allocate_zeroed(context, context->size * sizeof *openings->peers);
    return openings->peers
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_NO_MEMORY, "options.size: no memory for %u ranks", context->size);
}

void gcoll_openings_free(gcoll_context *context) {
    gcoll_openings *openings = &context->runs->openings;
    while (openings->blocks) {
        gcoll_early_block *block = openings->blocks;
        openings->blocks = block->next;
        gcoll_release(context, block, sizeof *block);
    }
    gcoll_release(context, openings->peers, context->size * sizeof *openings->peers);
}
