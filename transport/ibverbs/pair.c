/* transport/ibverbs/pair.c - the state for one peer: created when it is needed, dropped in steps. */
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

gcoll_ib_pair *gcoll_ib_pair_of(gcoll_ib *ib, uint32_t rank) {
    if (rank >= ib->size || rank == ib->rank)
        return NULL;
    gcoll_ib_pair *pair = ib->pairs[rank];
    if (!pair) {
        pair = calloc(1, sizeof *pair);
        if (pair) {
            pair->ib = ib;
            pair->rank = rank;
            pair->next_known = ib->known;
            ib->known = pair;
            ib->pairs[rank] = pair;
        } else {
            gcoll_ib_problem(ib, gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", rank));
        }
    }
    return pair;
}

/* ---- Dropping -------------------------------------------------------------------------------------- */

static void release_message(gcoll_ib_pair *pair, gcoll_message *message) {
    if (message && message->region) {
        gcoll_ib_unregister(pair->ib, message->region);
        message->region = NULL;
    }
}

static void release_slot(void *arg, gcoll_slot *slot) {
    release_message(arg, slot->message);
}

/* Whether the device may still access the caller's memory for this pair. */
static bool exposes_memory(const gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->pieces[i].slot && pair->pieces[i].chunk == GCOLL_IB_CHUNKS)
            return true;
    return pair->ib->exposed_count > 0 || pair->writes_posted != pair->writes_finished;
}

static void drop_sends(gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->targets[i].used)
            release_message(pair, pair->targets[i].message);
    for (uint32_t i = 0; i < GCOLL_IB_DEPTH; i++) {
        release_message(pair, pair->sent[i]);
        pair->sent[i] = NULL;
    }
    gcoll_match_visit(&pair->outgoing, release_slot, pair);
    gcoll_match_clear(&pair->outgoing);
    memset(&pair->waiting, 0, sizeof pair->waiting);
    memset(&pair->untold, 0, sizeof pair->untold);
    memset(pair->targets, 0, sizeof pair->targets);
    pair->write_head = pair->write_count = 0;
    pair->promised = pair->asked = 0;
    gcoll_message_queue_clear(&pair->messages);
    for (gcoll_message *access = pair->accesses.first; access; access = access->next)
        release_message(pair, access);
    gcoll_message_queue_clear(&pair->accesses);
    free(pair->control.bytes);
    memset(&pair->control, 0, sizeof pair->control);
}

static void forget_pieces(gcoll_ib_pair *pair) {
    memset(pair->pieces, 0, sizeof pair->pieces);
    memset(&pair->ungranted, 0, sizeof pair->ungranted);
    memset(&pair->ahead, 0, sizeof pair->ahead);
    memset(&pair->wanted, 0, sizeof pair->wanted);
    pair->piece_count = 0;
    pair->granted = pair->offered = 0;
}

void gcoll_ib_pair_drop(gcoll_ib_pair *pair) {
    if (exposes_memory(pair))
        gcoll_ib_queue_destroy(pair);
    drop_sends(pair);
    gcoll_match_visit(&pair->incoming, release_slot, pair);
    gcoll_match_clear(&pair->incoming);
    forget_pieces(pair);
    pair->held = 0;
}

/* Drops a posted receive or an offered message of a departed peer: it will never be complete. */
static void drop_if_hopeless(void *arg, gcoll_slot *slot) {
    gcoll_ib_pair *pair = arg;
    if (!slot->message && (slot->flags & GCOLL_IB_STARTED))
        return; /* a small message arrives in one piece */
    release_message(pair, slot->message);
    gcoll_match_remove(&pair->incoming, slot);
}

void gcoll_ib_pair_release(gcoll_ib_pair *pair) {
    bool keeps_queue = pair->verdict == GCOLL_ERR_PROTOCOL || pair->verdict == GCOLL_ERR_MISMATCH;
    if (pair->state == GCOLL_IB_DEPARTED) {
        gcoll_ib_queue_destroy(pair);
        drop_sends(pair);
        gcoll_match_visit(&pair->incoming, drop_if_hopeless, pair);
        forget_pieces(pair);
        return;
    }
    if (!keeps_queue) /* kept for an abort that tells the peer, which has not noticed the error */
        gcoll_ib_queue_destroy(pair);
    gcoll_ib_pair_drop(pair);
}

void gcoll_ib_pair_destroy(gcoll_ib_pair *pair) {
    if (pair) {
        gcoll_ib_queue_destroy(pair);
        gcoll_match_clear(&pair->incoming);
        gcoll_match_clear(&pair->outgoing);
        free(pair->control.bytes);
        free(pair->meeting);
        free(pair);
    }
}
