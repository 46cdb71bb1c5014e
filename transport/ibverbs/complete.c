/*
 * transport/ibverbs/complete.c - takes completions, and turns failed ones into doubts about the peer.
 *
 * The first error of a queue pair is the cause; later requests are only flushed. Usually the session knows a
 * better cause: the peer aborted with a reason, closed, or its process died. Before the lane stands, an error
 * means that the two cannot reach each other by their devices.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

/* Completions taken in one go, before other work has its turn. */
#define POLL_BUDGET 128

/* ---- Errors of completions ------------------------------------------------------------------------- */

static void explain(gcoll_ib_pair *pair, const struct ibv_wc *wc) {
    const gcoll_ib *ib = pair->ib;
    char text[GCOLL_IB_FAULT_TEXT];
    double timeout_ms = 4.096e-3 * (double)(UINT64_C(1) << ib->options.timeout);
    switch (wc->status) {
    case IBV_WC_WR_FLUSH_ERR:
        if (gcoll_ib_stands(pair))
            gcoll_session_doubt(pair->session, GCOLL_IB_FLUSHED_MS, true,
                                "lost its queue pair (requests were flushed without a cause)");
        else if (!pair->stands)
            gcoll_ib_broke(pair, "lost its queue pair before it could be used");
        return;
    case IBV_WC_RETRY_EXC_ERR:
        snprintf(text, sizeof text,
                 "does not acknowledge (retry exceeded: nothing within %.0f ms, sent %u times)",
                 timeout_ms * (ib->options.retry_count + 1), ib->options.retry_count + 1);
        break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        snprintf(text, sizeof text, "has no receive posted (receiver not ready, %u retries)",
                 ib->options.rnr_retry);
        break;
    case IBV_WC_REM_ACCESS_ERR:
        snprintf(text, sizeof text,
                 "refused access to its memory (remote access error; a region that is gone, or a wrong key)");
        break;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        snprintf(text, sizeof text, "could not serve a request (%s)", ib->verbs.wc_status_str(wc->status));
        break;
    default:
        snprintf(text, sizeof text, "cannot be reached any more by %s (%s, vendor code 0x%x)", ib->place.name,
                 ib->verbs.wc_status_str(wc->status), wc->vendor_err);
        break;
    }
    gcoll_ib_broke(pair, "%s", text);
}

/* ---- Received frames ------------------------------------------------------------------------------- */

static void on_frame(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra) {
    if (frame->credit > 0)
        gcoll_flow_on_credit(pair->flow, frame->credit);
    if (frame->flags & GCOLL_IB_OPEN)
        gcoll_session_opened(pair->session, frame->stream, extra);
    if (!gcoll_ib_stands(pair))
        return;
    switch (frame->kind) {
    case GCOLL_IB_DATA:
        gcoll_ib_on_data(pair, frame, extra);
        return;
    case GCOLL_IB_OFFER:
        gcoll_ib_on_offer(pair, frame, extra);
        return;
    case GCOLL_IB_GRANT:
        gcoll_flow_on_grant(pair->flow, frame->stream, frame->index, false);
        return;
    case GCOLL_IB_PIECE:
        gcoll_ib_on_piece(pair, frame);
        return;
    case GCOLL_IB_REVOKE:
        if (frame->total > 0)
            gcoll_ib_on_pieces_revoked(pair, frame);
        else
            gcoll_flow_on_revoke(pair->flow, frame->stream, frame->index);
        return;
    case GCOLL_IB_GOODBYE:
        pair->goodbye = true;
        return;
    case GCOLL_IB_PROOF:
        return;
    default: /* CREDIT */
        gcoll_ib_on_opening(pair, frame);
        return;
    }
}

static void take_frame(gcoll_ib_pair *pair, const uint8_t *bytes, uint32_t count) {
    gcoll_ib_frame frame;
    const char *wrong = gcoll_ib_get_frame(bytes, count, &frame);
    if (!wrong && pair->goodbye)
        wrong = "a frame after its goodbye";
    if (!wrong && frame.slots > GCOLL_IB_DEPTH - pair->slots)
        wrong = "more slots than there are";
    if (!wrong && frame.kind == GCOLL_IB_PROOF && count != pair->packet_bytes)
        wrong = "a proof that does not fill a packet";
    if (wrong) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return;
    }
    pair->slots += frame.slots;
    if (gcoll_net_is_leaving(pair->ib->net))
        return;
    if (frame.slots > 0)
        gcoll_ib_want_output(pair);
    on_frame(pair, &frame, bytes + GCOLL_IB_HEADER_BYTES);
}

static bool is_proof(const gcoll_ib_pair *pair, const struct ibv_wc *wc) {
    return wc->opcode == IBV_WC_RECV && wc->byte_len >= GCOLL_IB_HEADER_BYTES &&
           gcoll_ib_is_proof(gcoll_ib_received(pair, (uint32_t)wc->wr_id));
}

static void on_received(gcoll_ib_pair *pair, const struct ibv_wc *wc) {
    uint32_t slot = (uint32_t)wc->wr_id;
    pair->heard++;
    if (!pair->stands)
        gcoll_ib_heard_early(pair, is_proof(pair, wc));
    if (!pair->qp || !gcoll_session_is_well(pair->session))
        return;
    if (!pair->stands && !is_proof(pair, wc)) {
        if (!gcoll_net_is_leaving(pair->ib->net))
            gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                               "sent garbage (a frame before the queue pair could be used)");
        return;
    }
    if (wc->opcode == IBV_WC_RECV)
        take_frame(pair, gcoll_ib_received(pair, slot), wc->byte_len);
    else if (!gcoll_net_is_leaving(pair->ib->net))
        gcoll_ib_on_written(pair, be32toh(wc->imm_data), wc->byte_len);
    if (!gcoll_session_is_well(pair->session) || !pair->qp)
        return;
    if (!gcoll_ib_queue_receive(pair, slot)) {
        gcoll_ib_broke(pair, "cannot be received from any more (posting failed)");
        return;
    }
    pair->slots_owed++;
    gcoll_ib_want_output(pair);
}

static void on_completion(gcoll_ib *ib, const struct ibv_wc *wc) {
    const gcoll_session *session = gcoll_net_session(ib->net, (uint32_t)(wc->wr_id >> 33));
    gcoll_ib_pair *pair = session && gcoll_session_has_taken(session, &gcoll_lane_ibverbs)
                              ? gcoll_session_lane_state(session)
                              : NULL;
    bool is_send = ((wc->wr_id >> 32) & 1) == GCOLL_IB_WORK_SEND;
    if (!pair || !pair->qp)
        return; /* a completion of a destroyed queue pair */
    if (wc->status != IBV_WC_SUCCESS)
        explain(pair, wc);
    else if (is_send)
        gcoll_ib_queue_finished(pair, (uint32_t)wc->wr_id);
    else
        on_received(pair, wc);
}

uint32_t gcoll_ib_poll(gcoll_ib *ib) {
    uint32_t total = 0;
    int count;
    do {
        struct ibv_wc completions[GCOLL_IB_BATCH];
        count = ibv_poll_cq(ib->cq, GCOLL_IB_BATCH, completions);
        if (count < 0) {
            gcoll_net_fail(ib->net, gcoll_error(GCOLL_ERR_IO, "ibverbs: the completion queue of %s is broken",
                                                ib->place.name));
            return total;
        }
        for (int i = 0; i < count; i++)
            on_completion(ib, &completions[i]);
        total += (uint32_t)count;
        if (count > 0 && !gcoll_net_is_leaving(ib->net))
            gcoll_ib_flush_all(ib); /* send grants before taking more completions */
    } while (count == GCOLL_IB_BATCH && total < POLL_BUDGET && !gcoll_net_is_late(ib->net));
    ib->counters.completions += total;
    if (total > 0)
        gcoll_net_moved(ib->net);
    return total;
}
