/*
 * transport/ibverbs/hello.c - the exchange by which two ranks connect their queue pairs.
 *
 * Each side says a hello by the session: what the other needs to reach its queue pair. When its queue pair
 * can receive from the other's, it says "ready". Nothing is sent over the queue pair before the other's
 * "ready": packets to a queue pair that cannot receive are dropped, and the device repeats them only for a
 * limited time, while the peer may be computing.
 *
 * If the two have another lane to fall back on, the devices prove that they reach each other: each sends a
 * frame that says nothing, and says "proved" when the other's device has acknowledged it. The frame fills a
 * packet of the path's MTU, as a network may pass small packets and drop large ones. Time is limited, as a
 * device may be told to repeat packets for ever. The lane stands when both have proved themselves. A frame
 * that arrives counts as the word that must have gone before it, which may come later, as it goes another
 * way.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

#define RNR_TIMER 12 /* 0.64 ms; never needed */
#define HOP_LIMIT 64

/* ---- The queue pair -------------------------------------------------------------------------------- */

static void set_address(const gcoll_ib *ib, const gcoll_ib_hello *peer, struct ibv_ah_attr *address) {
    address->port_num = ib->place.port;
    address->sl = (uint8_t)ib->options.service_level;
    address->dlid = peer->lid;
    if (peer->ethernet) {
        address->is_global = 1;
        address->grh.dgid = peer->gid;
        address->grh.sgid_index = (uint8_t)ib->place.gid_index;
        address->grh.hop_limit = HOP_LIMIT;
        address->grh.traffic_class = (uint8_t)ib->options.traffic_class;
    }
}

static int receive_from(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    const gcoll_ib_hello *peer = &pair->peer;
    const enum ibv_mtu mtu = peer->mtu < ib->place.mtu ? peer->mtu : ib->place.mtu;
    pair->packet_bytes = gcoll_ib_mtu_bytes(mtu);
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                     .path_mtu = mtu,
                                     .dest_qp_num = peer->qpn,
                                     .rq_psn = peer->psn,
                                     .max_dest_rd_atomic = 1,
                                     .min_rnr_timer = RNR_TIMER};
    set_address(ib, peer, &attributes.ah_attr);
    return ib->verbs.modify_qp(pair->qp, &attributes,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int send_to(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS,
                                     .timeout = (uint8_t)ib->options.timeout,
                                     .retry_cnt = (uint8_t)ib->options.retry_count,
                                     .rnr_retry = (uint8_t)ib->options.rnr_retry,
                                     .sq_psn = pair->psn,
                                     .max_rd_atomic = 1};
    return ib->verbs.modify_qp(pair->qp, &attributes,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- Words ----------------------------------------------------------------------------------------- */

/* The first byte of a word. */
enum { WORD_HELLO = 1, WORD_READY = 2, WORD_PROVED = 3 };
_Static_assert(1 + GCOLL_IB_HELLO_BYTES <= GCOLL_LANE_WORD_MAX, "a hello is a word");

static void say(gcoll_ib_pair *pair, uint8_t word) {
    gcoll_session_say(pair->session, &word, sizeof word);
}

/* Ends the meeting if all that is needed has been said by both. */
static void stand_if_ready(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    if (pair->stands || pair->ended || !gcoll_session_is_well(pair->session) ||
        gcoll_net_is_leaving(ib->net) || !pair->is_ready || !pair->peer_ready ||
        (pair->proves && !(pair->proved && pair->peer_proved)))
        return;
    pair->stands = true;
    gcoll_session_stand(pair->session, ib->eager_bytes, ib->pool_bytes, ib->eager_bytes,
                        pair->peer.pool_bytes);
    gcoll_ib_grant_pieces(pair);
    gcoll_ib_want_output(pair);
}

/* The other's queue pair receives. */
static void on_ready(gcoll_ib_pair *pair) {
    if (pair->proves && pair->is_ready && !pair->peer_ready) {
        pair->says_proof = true;
        gcoll_ib_want_output(pair);
    }
    pair->peer_ready = true;
    stand_if_ready(pair);
}

void gcoll_ib_heard_early(gcoll_ib_pair *pair, bool is_proof) {
    pair->peer_proved = pair->peer_proved || !is_proof;
    if (pair->is_ready)
        on_ready(pair);
}

void gcoll_ib_proof_sent(gcoll_ib_pair *pair) {
    pair->says_proof = false;
    pair->proof_until_ms = gcoll_now_ms() + GCOLL_IB_PROOF_MS;
    pair->ib->proof_count++;
}

void gcoll_ib_proof_ended(gcoll_ib_pair *pair) {
    pair->ib->proof_count -= pair->proof_until_ms != 0;
    pair->proof_until_ms = 0;
}

void gcoll_ib_proved(gcoll_ib_pair *pair) {
    gcoll_ib_proof_ended(pair);
    if (!pair->proved && !pair->ended) {
        pair->proved = true;
        say(pair, WORD_PROVED);
        stand_if_ready(pair);
    }
}

void gcoll_ib_limit_proofs(gcoll_ib *ib) {
    const int64_t now = gcoll_now_ms();
    for (gcoll_ib_pair *pair = ib->known; pair; pair = pair->next_known)
        if (pair->proof_until_ms != 0 && now >= pair->proof_until_ms) {
            gcoll_ib_proof_ended(pair);
            gcoll_ib_broke(pair, "does not acknowledge a packet of %u bytes (nothing within %d ms)",
                           pair->packet_bytes, GCOLL_IB_PROOF_MS);
        }
}

static const char *check(const gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    if (pair->peer.ethernet != ib->place.ethernet)
        return pair->peer.ethernet ? "is on Ethernet, and this rank on InfiniBand"
                                   : "is on InfiniBand, and this rank on Ethernet";
    if (pair->peer.eager_bytes != ib->eager_bytes)
        return "runs with another eager_bytes, or another pool";
    if (pair->peer.by_device != (ib->options.device_memory != GCOLL_IB_DEVICE_MEMORY_NEVER))
        return pair->peer.by_device ? "runs with ibverbs.device_memory, and this rank without"
                                    : "runs without ibverbs.device_memory, and this rank with it";
    return NULL;
}

static void on_hello(gcoll_ib_pair *pair, const uint8_t *bytes, uint32_t count) {
    const char *wrong = count != GCOLL_IB_HELLO_BYTES || pair->has_hello
                            ? "a hello of another size, or a second one"
                            : gcoll_ib_get_hello(bytes, &pair->peer);
    if (wrong) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return;
    }
    pair->has_hello = true;
    wrong = check(pair);
    if (wrong) {
        gcoll_session_refuse(pair->session, GCOLL_ERR_PROTOCOL, wrong);
        return;
    }
    int error = receive_from(pair);
    error = error == 0 ? send_to(pair) : error;
    if (error != 0) {
        gcoll_ib_broke(pair, "cannot be reached by %s port %u (%s)", pair->ib->place.name,
                       pair->ib->place.port, strerror(error));
        return;
    }
    pair->slots = GCOLL_IB_DEPTH;
    pair->is_ready = true;
    say(pair, WORD_READY);
    stand_if_ready(pair);
}

void gcoll_ib_hear(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    if (!pair)
        return; /* this rank is about to fail for what it lacks */
    const uint8_t word = count > 0 ? bytes[0] : 0;
    if (word == WORD_HELLO) {
        on_hello(pair, bytes + 1, count - 1);
    } else if (count == 1 && pair->is_ready && word == WORD_READY) {
        on_ready(pair);
    } else if (count == 1 && pair->is_ready && word == WORD_PROVED) {
        pair->peer_proved = true;
        stand_if_ready(pair);
    } else {
        gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (a word of ibverbs that cannot be)");
    }
}

static void say_hello(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    const gcoll_ib_hello hello = {.qpn = pair->qp->qp_num,
                                  .psn = pair->psn,
                                  .lid = ib->place.lid,
                                  .ethernet = ib->place.ethernet,
                                  .by_device = ib->options.device_memory != GCOLL_IB_DEVICE_MEMORY_NEVER,
                                  .gid = ib->place.gid,
                                  .mtu = ib->place.mtu,
                                  .depth = GCOLL_IB_DEPTH,
                                  .piece_max = ib->place.message_max,
                                  .eager_bytes = ib->eager_bytes,
                                  .pool_bytes = ib->pool_bytes};
    uint8_t bytes[1 + GCOLL_IB_HELLO_BYTES] = {WORD_HELLO};
    gcoll_ib_put_hello(bytes + 1, &hello);
    gcoll_session_say(pair->session, bytes, sizeof bytes);
}

void gcoll_ib_begin(gcoll_session *session, gcoll_lane_port *port) {
    gcoll_ib_pair *pair = gcoll_ib_pair_new(gcoll_ib_of(port), session);
    const gcoll_status status = pair ? gcoll_ib_queue_create(pair) : GCOLL_ERR_NO_MEMORY;
    if (status != GCOLL_OK) {
        gcoll_session_refuse(session, status, NULL);
        return;
    }
    pair->proves = gcoll_session_has_choice(session);
    say_hello(pair);
}
