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
            gcoll_flow_init(&pair->flow, &gcoll_ib_flow_lane, rank, ib->eager_bytes, ib->pool_bytes);
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

void gcoll_ib_release(gcoll_ib_pair *pair, gcoll_message *message) {
    if (message && message->region) {
        gcoll_ib_unregister(pair->ib, message->region);
        message->region = NULL;
    }
}

/* Whether the device may still access the caller's memory for this pair. */
static bool exposes_memory(const gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->pieces[i].slot && pair->pieces[i].chunk == GCOLL_IB_CHUNKS)
            return true;
    return pair->ib->exposed_count > 0 || pair->writes_posted != pair->writes_finished;
}

/* Drops what the queue pair has to do with sends. */
static void drop_moving(gcoll_ib_pair *pair) {
    for (uint32_t i = 0; i < GCOLL_IB_PIECES; i++)
        if (pair->targets[i].used)
            gcoll_ib_release(pair, pair->targets[i].message);
    for (uint32_t i = 0; i < GCOLL_IB_DEPTH; i++) {
        gcoll_ib_release(pair, pair->sent[i]);
        pair->sent[i] = NULL;
    }
    memset(pair->targets, 0, sizeof pair->targets);
    pair->write_head = pair->write_count = 0;
    gcoll_message_queue_clear(&pair->messages);
    for (gcoll_message *access = pair->accesses.first; access; access = access->next)
        gcoll_ib_release(pair, access);
    gcoll_message_queue_clear(&pair->accesses);
    free(pair->control.bytes);
    memset(&pair->control, 0, sizeof pair->control);
}

static void forget_pieces(gcoll_ib_pair *pair) {
    memset(pair->pieces, 0, sizeof pair->pieces);
    memset(&pair->ahead, 0, sizeof pair->ahead);
    memset(&pair->wanted, 0, sizeof pair->wanted);
    pair->piece_count = 0;
}

void gcoll_ib_pair_drop(gcoll_ib_pair *pair) {
    if (exposes_memory(pair))
        gcoll_ib_queue_destroy(pair);
    drop_moving(pair);
    gcoll_flow_drop(&pair->flow);
    forget_pieces(pair);
}

void gcoll_ib_pair_release(gcoll_ib_pair *pair) {
    bool keeps_queue = pair->verdict == GCOLL_ERR_PROTOCOL || pair->verdict == GCOLL_ERR_MISMATCH;
    if (pair->state == GCOLL_IB_DEPARTED) {
        gcoll_ib_queue_destroy(pair);
        drop_moving(pair);
        gcoll_flow_depart(&pair->flow);
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
        gcoll_flow_destroy(&pair->flow);
        free(pair->control.bytes);
        free(pair->meeting);
        free(pair);
    }
}
