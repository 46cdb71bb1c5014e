/*
 * transport/ibverbs/complete.c - takes completions, and turns failed ones into a verdict on the peer.
 *
 * The first error of a queue pair is the cause; later requests are only flushed. Usually the side channel
 * brings a better cause: the peer aborted with a reason, closed, or its process died. So the error of a queue
 * pair is held back for a moment, and reported if the side channel brings no better cause.
 */
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

/* Completions taken in one go, before other work has its turn. */
#define POLL_BUDGET 128

/* ---- Verdicts -------------------------------------------------------------------------------------- */

void gcoll_ib_complete(gcoll_ib *ib, gcoll_message *message) {
    gcoll_message_push(&ib->completed, message);
}

void gcoll_ib_report_completed(gcoll_ib *ib) {
    while (ib->completed.first) {
        gcoll_message *message = gcoll_message_pop(&ib->completed);
        ib->moved = true;
        message->done(message);
    }
}

static void end_doubt(gcoll_ib_pair *pair) {
    if (pair->in_doubt) {
        pair->in_doubt = false;
        pair->ib->doubt_count--;
    }
}

static void begin_doubt(gcoll_ib_pair *pair, int64_t ms) {
    if (!pair->in_doubt) {
        pair->in_doubt = true;
        pair->ib->doubt_count++;
    }
    pair->until_ms = gcoll_now_ms() + ms;
}

static void leave_state(gcoll_ib_pair *pair, gcoll_ib_state state) {
    if (pair->state == GCOLL_IB_MEETING)
        pair->ib->meeting_count--;
    pair->state = state;
}

static void list_verdict(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    if (pair->in_verdicts)
        return; /* a departure, not reported yet, that turned out to be a failure */
    pair->in_verdicts = true;
    pair->next_verdict = NULL;
    if (ib->last_verdict)
        ib->last_verdict->next_verdict = pair;
    else
        ib->verdicts = pair;
    ib->last_verdict = pair;
}

void gcoll_ib_fail(gcoll_ib_pair *pair, gcoll_status status, const char *format, ...) {
    bool still_matters = status == GCOLL_ERR_MISMATCH || status == GCOLL_ERR_INTERNAL;
    if ((pair->state == GCOLL_IB_FAILED && !pair->in_doubt) ||
        (pair->state == GCOLL_IB_DEPARTED && !still_matters))
        return;
    end_doubt(pair);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pair->verdict_text, sizeof pair->verdict_text, format, arguments);
    va_end(arguments);
    pair->verdict = status;
    leave_state(pair, GCOLL_IB_FAILED);
    list_verdict(pair);
}

void gcoll_ib_doubt(gcoll_ib_pair *pair, const char *format, ...) {
    if (pair->state >= GCOLL_IB_DEPARTED && !(pair->in_doubt && pair->only_flushed))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pair->verdict_text, sizeof pair->verdict_text, format, arguments);
    va_end(arguments);
    pair->verdict = GCOLL_ERR_PEER;
    pair->only_flushed = false;
    leave_state(pair, GCOLL_IB_FAILED);
    begin_doubt(pair, GCOLL_IB_DOUBT_MS);
}

void gcoll_ib_linger(gcoll_ib_pair *pair) {
    begin_doubt(pair, GCOLL_IB_LINGER_MS);
}

void gcoll_ib_depart(gcoll_ib_pair *pair) {
    bool has_left = pair->state == GCOLL_IB_DEPARTED || (pair->state == GCOLL_IB_FAILED && !pair->in_doubt);
    if (has_left)
        return;
    end_doubt(pair);
    leave_state(pair, GCOLL_IB_DEPARTED);
    pair->verdict = GCOLL_OK;
    list_verdict(pair);
}

void gcoll_ib_settle_doubts(gcoll_ib *ib) {
    int64_t now = gcoll_now_ms();
    for (gcoll_ib_pair *pair = ib->known; pair && ib->doubt_count > 0; pair = pair->next_known) {
        if (!pair->in_doubt || (now < pair->until_ms && !(pair->side_closed && pair->goodbye)))
            continue;
        if (pair->side_closed) {
            gcoll_ib_depart(pair);
        } else {
            end_doubt(pair);
            list_verdict(pair);
        }
    }
}

void gcoll_ib_problem(gcoll_ib *ib, gcoll_status status) {
    if (ib->problem == GCOLL_OK) {
        ib->problem = status;
        snprintf(ib->problem_text, sizeof ib->problem_text, "%s", gcoll_last_error());
    }
}

static void announce(gcoll_ib_pair *pair) {
    const gcoll_events *events = &pair->ib->events;
    if (pair->ib->leaving || (pair->told && pair->verdict == GCOLL_ERR_PEER))
        return; /* leaving ourselves, or the peer sent the cause before it closed */
    pair->ib->moved = true;
    if (pair->verdict == GCOLL_OK)
        events->departed(events->arg, pair->rank);
    else
        events->failed(events->arg, pair->rank, pair->verdict, pair->verdict_text);
}

/* Reports completed messages and broken pairs. Messages that completed before a pair broke come before the
 * break. */
void gcoll_ib_report(gcoll_ib *ib) {
    for (;;) {
        gcoll_ib_pair *pair = ib->verdicts;
        gcoll_ib_report_completed(ib);
        if (!pair)
            return;
        ib->verdicts = pair->next_verdict;
        if (!ib->verdicts)
            ib->last_verdict = NULL;
        pair->in_verdicts = false;
        gcoll_ib_pair_release(pair);
        announce(pair);
    }
}

/* ---- Errors of completions ------------------------------------------------------------------------- */

static void explain(gcoll_ib_pair *pair, const struct ibv_wc *wc) {
    const gcoll_ib *ib = pair->ib;
    double timeout_ms = 4.096e-3 * (double)(UINT64_C(1) << ib->options.timeout);
    switch (wc->status) {
    case IBV_WC_WR_FLUSH_ERR:
        if (pair->state == GCOLL_IB_CONNECTED) {
            gcoll_ib_doubt(pair, "lost its queue pair (requests were flushed without a cause)");
            pair->only_flushed = true;
            begin_doubt(pair, GCOLL_IB_FLUSHED_MS);
        }
        return;
    case IBV_WC_RETRY_EXC_ERR:
        gcoll_ib_doubt(pair, "does not acknowledge (retry exceeded: nothing within %.0f ms, sent %u times)",
                       timeout_ms * (ib->options.retry_count + 1), ib->options.retry_count + 1);
        return;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        gcoll_ib_doubt(pair, "has no receive posted (receiver not ready, %u retries)", ib->options.rnr_retry);
        return;
    case IBV_WC_REM_ACCESS_ERR:
        gcoll_ib_doubt(
            pair,
            "refused access to its memory (remote access error; a region that is gone, or a wrong key)");
        return;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        gcoll_ib_doubt(pair, "could not serve a request (%s)", ib->verbs.wc_status_str(wc->status));
        return;
    default:
        gcoll_ib_doubt(pair, "cannot be reached any more by %s (%s, vendor code 0x%x)", ib->place.name,
                       ib->verbs.wc_status_str(wc->status), wc->vendor_err);
        return;
    }
}

/* ---- Received frames ------------------------------------------------------------------------------- */

static void on_frame(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra) {
    gcoll_ib *ib = pair->ib;
    if (frame->credit > 0)
        gcoll_flow_on_credit(&pair->flow, frame->credit);
    if (frame->flags & GCOLL_IB_OPEN) {
        ib->moved = true;
        ib->events.opened(ib->events.arg, pair->rank, frame->stream, extra);
    }
    if (pair->state != GCOLL_IB_CONNECTED)
        return;
    switch (frame->kind) {
    case GCOLL_IB_DATA:
        gcoll_ib_on_data(pair, frame, frame->flags & GCOLL_IB_OPEN ? extra + GCOLL_IB_EXTRA_BYTES : extra);
        return;
    case GCOLL_IB_OFFER:
        gcoll_ib_on_offer(pair, frame, extra);
        return;
    case GCOLL_IB_GRANT:
        gcoll_flow_on_grant(&pair->flow, frame->stream, frame->index);
        return;
    case GCOLL_IB_PIECE:
        gcoll_ib_on_piece(pair, frame);
        return;
    case GCOLL_IB_REVOKE:
        if (frame->total > 0)
            gcoll_ib_on_pieces_revoked(pair, frame);
        else
            gcoll_flow_on_revoke(&pair->flow, frame->stream, frame->index);
        return;
    case GCOLL_IB_GOODBYE:
        pair->goodbye = true;
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
    if (wrong) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return;
    }
    pair->slots += frame.slots;
    if (pair->ib->leaving)
        return;
    if (frame.slots > 0)
        gcoll_ib_want_output(pair);
    on_frame(pair, &frame, bytes + GCOLL_IB_HEADER_BYTES);
}

static void on_received(gcoll_ib_pair *pair, const struct ibv_wc *wc) {
    uint32_t slot = (uint32_t)wc->wr_id;
    pair->heard++;
    if (pair->state == GCOLL_IB_MEETING) { /* a peer that sends is ready to receive */
        pair->meeting->peer_ready = true;
        gcoll_ib_connect_if_ready(pair);
    }
    if (pair->state != GCOLL_IB_CONNECTED)
        return;
    if (wc->opcode == IBV_WC_RECV)
        take_frame(pair, pair->memory + (size_t)slot * pair->ib->slot_bytes, wc->byte_len);
    else if (!pair->ib->leaving)
        gcoll_ib_on_written(pair, be32toh(wc->imm_data), wc->byte_len);
    if (pair->state != GCOLL_IB_CONNECTED)
        return;
    if (!gcoll_ib_queue_receive(pair, slot)) {
        gcoll_ib_doubt(pair, "cannot be received from any more (posting failed)");
        return;
    }
    pair->slots_owed++;
    gcoll_ib_want_output(pair);
}

static void on_completion(gcoll_ib *ib, const struct ibv_wc *wc) {
    gcoll_ib_pair *pair = ib->pairs[wc->wr_id >> 33];
    bool is_send = ((wc->wr_id >> 32) & 1) == GCOLL_IB_WORK_SEND;
    if (!pair->qp)
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
            gcoll_ib_problem(ib, gcoll_error(GCOLL_ERR_IO, "ibverbs: the completion queue of %s is broken",
                                             ib->place.name));
            return total;
        }
        for (int i = 0; i < count; i++)
            on_completion(ib, &completions[i]);
        total += (uint32_t)count;
        if (count > 0 && !ib->leaving)
            gcoll_ib_flush_all(ib); /* send grants before taking more completions */
    } while (count == GCOLL_IB_BATCH && total < POLL_BUDGET);
    ib->counters.completions += total;
    *ib->moves += total > 0;
    ib->busy = ib->busy || total > 0;
    return total;
}
