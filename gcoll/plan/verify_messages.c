/* gcoll/plan/verify_messages.c - pairs each send with its receive.
 *
 * Messages from one rank to another form a channel, in which they are numbered in plan order from 0 on
 * both sides. O(1) a message: one look-up of its channel, and an array over all messages. */
#include <inttypes.h>
#include <stdlib.h>

#include "gcoll/plan/verify_internal.h"

typedef struct channels {
    gcoll_verify_map numbers;  /* sender << 32 | receiver -> 1 + channel */
    uint32_t *sent, *received; /* by channel: how many messages */
    uint64_t *begin;           /* by channel: where its messages begin in `receives` */
    uint32_t *receives;        /* step of the receiver, by channel and message */
    uint64_t count, sent_room, received_room;
} channels;

static gcoll_status find(channels *c, uint32_t rank, const gcoll_step *step, uint64_t *channel) {
    bool sends = step->kind == GCOLL_STEP_SEND;
    uint64_t key = sends ? (uint64_t)rank << 32 | step->peer : (uint64_t)step->peer << 32 | rank;
    uint32_t *number = gcoll_verify_map_at(&c->numbers, key);
    if (!number || c->count == UINT32_MAX)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "the verifier found no memory for messages");
    if (*number == 0) {
        gcoll_status status = gcoll_verify_reserve(&c->sent, &c->sent_room, c->count + 1, sizeof *c->sent);
        if (!status)
            status = gcoll_verify_reserve(&c->received, &c->received_room, c->count + 1, sizeof *c->received);
        if (status)
            return status;
        c->sent[c->count] = c->received[c->count] = 0;
        *number = (uint32_t)++c->count;
    }
    *channel = *number - 1;
    return GCOLL_OK;
}

static gcoll_status count_messages(const gcoll_verifier *v, channels *c, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        uint64_t channel = 0;
        if (!gcoll_step_is_message(step))
            continue;
        gcoll_status status = find(c, rank, step, &channel);
        if (status)
            return status;
        uint32_t *next = step->kind == GCOLL_STEP_SEND ? &c->sent[channel] : &c->received[channel];
        if (step->message != *next)
            return gcoll_verify_fail(v, rank, i, "is message %u there by its number, but %u by its place",
                                     step->message, *next);
        (*next)++;
    }
    return GCOLL_OK;
}

/* Finds the number of a message among all messages of all channels. */
static gcoll_status locate(const gcoll_verifier *v, channels *c, uint32_t rank, uint32_t i, uint64_t *place) {
    const gcoll_step *step = &v->plans[rank]->steps[i];
    uint64_t channel = 0;
    gcoll_status status = find(c, rank, step, &channel);
    if (status)
        return status;
    bool sends = step->kind == GCOLL_STEP_SEND;
    uint32_t others = sends ? c->received[channel] : c->sent[channel];
    if (step->message >= others)
        return gcoll_verify_fail(v, rank, i, "no partner: it is message %u there, and rank %u %s only %u",
                                 step->message, step->peer, sends ? "receives" : "sends", others);
    *place = c->begin[channel] + step->message;
    return GCOLL_OK;
}

static gcoll_status note_receives(const gcoll_verifier *v, channels *c, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        uint64_t place = 0;
        if (!gcoll_verify_is_recv(&plan->steps[i]))
            continue;
        gcoll_status status = locate(v, c, rank, i, &place);
        if (status)
            return status;
        c->receives[place] = i;
    }
    return GCOLL_OK;
}

static gcoll_status match_sends(gcoll_verifier *v, channels *c, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        uint64_t place = 0;
        if (step->kind != GCOLL_STEP_SEND)
            continue;
        gcoll_status status = locate(v, c, rank, i, &place);
        if (status)
            return status;
        uint32_t partner = c->receives[place];
        const gcoll_step *receive = &v->plans[step->peer]->steps[partner];
        if (receive->count != step->count)
            return gcoll_verify_fail(v, step->peer, partner, "partner (rank %u, step %u) sends %" PRIu64,
                                     rank, i, step->count);
        v->partner[v->base[rank] + i] = partner;
        v->partner[v->base[step->peer] + partner] = i;
    }
    return GCOLL_OK;
}

/* Reserves room for the messages of all channels, one channel after the other. A channel has as many
 * messages as receives: if the number of sends differs, one side finds no partner. */
static gcoll_status lay_out(channels *c) {
    c->begin = gcoll_verify_allocate(c->count + 1, sizeof *c->begin);
    if (!c->begin)
        return GCOLL_ERR_NO_MEMORY;
    for (uint64_t k = 0; k < c->count; k++)
        c->begin[k + 1] = c->begin[k] + c->received[k];
    c->receives = gcoll_verify_allocate(c->begin[c->count], sizeof *c->receives);
    return c->receives ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
}

gcoll_status gcoll_verify_messages(gcoll_verifier *v) {
    channels c = {0};
    gcoll_status status = GCOLL_OK;
    for (uint32_t r = 0; !status && r < v->size; r++)
        status = count_messages(v, &c, r);
    if (!status)
        status = lay_out(&c);
    for (uint32_t r = 0; !status && r < v->size; r++)
        status = note_receives(v, &c, r);
    for (uint32_t r = 0; !status && r < v->size; r++)
        status = match_sends(v, &c, r);
    free(c.receives);
    free(c.begin);
    free(c.received);
    free(c.sent);
    gcoll_verify_map_free(&c.numbers);
    return status;
}
