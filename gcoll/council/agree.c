/* gcoll/council/agree.c - one agreement among ranks of which some may fail, see agree.h. */
#include "gcoll/council/agree.h"

#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"

/* A message: kind, instance, ballot, the sender's set of ranks that are gone, and by its kind:
 *   CALL     nothing: the sender leads, or its set has the receiver
 *   GIVE     a contribution to the leader: bits, number, the bytes of the row, the row, and the ballot and
 *            accord that the sender has accepted, if any
 *   PROPOSE  an accord
 *   ACCEPT   nothing
 *   DECIDE   the accord that the sender, as leader, has decided on. It will say when all ranks have it
 *   DECIDED  nothing: the sender has the accord
 *   DONE     nothing: all ranks have it
 *   PASS     the accord, from a rank that does not lead, or no longer
 * Numbers are little-endian. An accord: bits, number, the set of ranks that are gone, and for each other rank
 * in order the bytes of its row and the row. */
enum { CALL = 1, GIVE, PROPOSE, ACCEPT, DECIDE, DECIDED, DONE, PASS };

#define NUMBER    8
#define SHORT     4
#define KIND      1
#define HEAD      (KIND + NUMBER + SHORT)
#define GIVE_HEAD (NUMBER + NUMBER + SHORT + SHORT)

/* ---- Sets and bytes ------------------------------------------------------------------------- */

static bool in_set(const uint8_t *set, uint32_t rank) {
    return set[rank / 8] >> rank % 8 & 1;
}

static void add_to_set(uint8_t *set, uint32_t rank) {
    set[rank / 8] = (uint8_t)(set[rank / 8] | 1U << rank % 8);
}

static void drop(gcoll_agree_bytes *bytes) {
    free(bytes->data);
    *bytes = (gcoll_agree_bytes){0};
}

static bool copy(gcoll_agree_bytes *to, const uint8_t *data, size_t count) {
    uint8_t *memory = malloc(count ? count : 1);
    if (!memory)
        return false;
    if (count)
        memcpy(memory, data, count);
    free(to->data);
    *to = (gcoll_agree_bytes){memory, count};
    return true;
}

uint64_t gcoll_accord_bits(const gcoll_agree_bytes *accord) {
    return gcoll_get_le(accord->data, NUMBER);
}

uint64_t gcoll_accord_number(const gcoll_agree_bytes *accord) {
    return gcoll_get_le(accord->data + NUMBER, NUMBER);
}

bool gcoll_accord_is_gone(const gcoll_agree_bytes *accord, uint32_t rank) {
    return in_set(accord->data + NUMBER + NUMBER, rank);
}

bool gcoll_accord_have_same_gone(const gcoll_agree_bytes *a, const gcoll_agree_bytes *b, uint32_t size) {
    for (uint32_t rank = 0; rank < size; rank++)
        if (gcoll_accord_is_gone(a, rank) != gcoll_accord_is_gone(b, rank))
            return false;
    return true;
}

const uint8_t *gcoll_accord_row(const gcoll_agree_bytes *accord, uint32_t size, uint32_t rank,
                                size_t *bytes) {
    const uint8_t *at = accord->data + NUMBER + NUMBER + gcoll_agree_set_bytes(size);
    if (gcoll_accord_is_gone(accord, rank))
        return NULL;
    for (uint32_t other = 0;; other++) {
        if (gcoll_accord_is_gone(accord, other))
            continue;
        *bytes = gcoll_get_le(at, SHORT);
        if (other == rank)
            return at + SHORT;
        at += SHORT + *bytes;
    }
}

/* Whether bytes from a peer are an accord that this rank has part in. */
static bool is_accord(const gcoll_agree *a, const uint8_t *data, size_t count) {
    const uint32_t size = a->size;
    const size_t set = gcoll_agree_set_bytes(size);
    size_t at = NUMBER + NUMBER + set;
    if (count < at || in_set(data + NUMBER + NUMBER, a->rank))
        return false;
    for (uint32_t rank = 0; rank < size; rank++) {
        if (in_set(data + NUMBER + NUMBER, rank))
            continue;
        if (count - at < SHORT || gcoll_get_le(data + at, SHORT) > count - at - SHORT)
            return false;
        at += SHORT + gcoll_get_le(data + at, SHORT);
    }
    return at == count;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void send_to(gcoll_agree *a, uint32_t to, int kind, const gcoll_agree_bytes *first,
                    const gcoll_agree_bytes *second) {
    const size_t set = gcoll_agree_set_bytes(a->size);
    const size_t count = HEAD + set + (first ? first->count : 0) + (second ? second->count : 0);
    uint8_t *bytes = malloc(count);
    if (!bytes) {
        a->failed = true;
        return;
    }
    uint8_t *at = bytes + HEAD + set;
    bytes[0] = (uint8_t)kind;
    gcoll_put_le(bytes + KIND, a->instance, NUMBER);
    gcoll_put_le(bytes + KIND + NUMBER, a->leader, SHORT);
    memcpy(bytes + HEAD, a->gone, set);
    if (first && first->count)
        memcpy(at, first->data, first->count);
    if (second && second->count)
        memcpy(at + first->count, second->data, second->count);
    if (!a->send(a->arg, to, bytes, count))
        a->failed = true;
    free(bytes);
}

static void send_to_all(gcoll_agree *a, int kind, const gcoll_agree_bytes *body) {
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (rank != a->rank && !gcoll_agree_is_gone(a, rank))
            send_to(a, rank, kind, body, NULL);
}

/* Gives this rank's contribution to the leader, with what this rank has accepted. */
static void give(gcoll_agree *a) {
    gcoll_agree_bytes body = {malloc(GIVE_HEAD + a->row.count), GIVE_HEAD + a->row.count};
    if (!body.data) {
        a->failed = true;
        return;
    }
    gcoll_put_le(body.data, a->bits, NUMBER);
    gcoll_put_le(body.data + NUMBER, a->number, NUMBER);
    gcoll_put_le(body.data + NUMBER + NUMBER, a->row.count, SHORT);
    gcoll_put_le(body.data + NUMBER + NUMBER + SHORT, a->ballot, SHORT);
    if (a->row.count)
        memcpy(body.data + GIVE_HEAD, a->row.data, a->row.count);
    send_to(a, a->leader, GIVE, &body, a->ballot == GCOLL_AGREE_NONE ? NULL : &a->accord);
    free(body.data);
}

/* ---- Decision ------------------------------------------------------------------------------- */

/* The rank that was to say when all have decided is gone, or never was: the others hear it from this one. */
static void pass_on(gcoll_agree *a) {
    a->teller = GCOLL_AGREE_NONE;
    send_to_all(a, PASS, &a->accord);
    a->settled = true;
}

/* The leader has decided: whether the others have, too. */
static void look_whether_all_decided(gcoll_agree *a) {
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (rank != a->rank && !gcoll_agree_is_gone(a, rank) && !a->voices[rank].decided)
            return;
    send_to_all(a, DONE, NULL);
    a->settled = true;
}

static void decide(gcoll_agree *a, uint32_t teller) {
    a->decided = true;
    a->teller = teller;
    if (teller == a->rank) {
        send_to_all(a, DECIDE, &a->accord);
        look_whether_all_decided(a);
    }
}

/* ---- Leading -------------------------------------------------------------------------------- */

/* Makes the accord of the contributions. */
static bool make_accord(gcoll_agree *a) {
    const size_t set = gcoll_agree_set_bytes(a->size);
    size_t count = NUMBER + NUMBER + set;
    uint64_t bits = UINT64_MAX, number = UINT64_MAX;
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (!gcoll_agree_is_gone(a, rank)) {
            bits &= a->voices[rank].bits;
            number = a->voices[rank].number < number ? a->voices[rank].number : number;
            count += SHORT + a->voices[rank].row.count;
        }
    uint8_t *data = malloc(count);
    if (!data)
        return false;
    uint8_t *at = data + NUMBER + NUMBER + set;
    gcoll_put_le(data, bits, NUMBER);
    gcoll_put_le(data + NUMBER, number, NUMBER);
    memcpy(data + NUMBER + NUMBER, a->gone, set);
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (!gcoll_agree_is_gone(a, rank)) {
            const gcoll_agree_bytes *row = &a->voices[rank].row;
            gcoll_put_le(at, row->count, SHORT);
            if (row->count)
                memcpy(at + SHORT, row->data, row->count);
            at += SHORT + row->count;
        }
    free(a->accord.data);
    a->accord = (gcoll_agree_bytes){data, count};
    return true;
}

static void propose(gcoll_agree *a) {
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (!gcoll_agree_is_gone(a, rank) && !a->voices[rank].contributed)
            return;
    if (a->best_ballot != GCOLL_AGREE_NONE ? !copy(&a->accord, a->best.data, a->best.count)
                                           : !make_accord(a)) {
        a->failed = true;
        return;
    }
    a->ballot = a->rank;
    a->proposed = true;
    a->voices[a->rank].accepted = true;
    send_to_all(a, PROPOSE, &a->accord);
}

/* Does as leader what can be done now. */
static void lead(gcoll_agree *a) {
    if (a->decided) {
        if (a->teller == a->rank && !a->settled)
            look_whether_all_decided(a);
        return;
    }
    if (!a->proposed)
        propose(a);
    if (!a->proposed)
        return;
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (!gcoll_agree_is_gone(a, rank) && !a->voices[rank].accepted)
            return;
    decide(a, a->rank);
}

/* Takes a contribution, of which the leader keeps the latest accord that was accepted. */
static bool hear(gcoll_agree *a, uint32_t rank, uint64_t bits, uint64_t number, const uint8_t *row,
                 size_t row_bytes, uint32_t ballot, const uint8_t *accord, size_t accord_bytes) {
    gcoll_agree_voice *voice = &a->voices[rank];
    voice->contributed = true;
    voice->bits = bits;
    voice->number = number;
    if (!copy(&voice->row, row, row_bytes))
        return false;
    if (ballot == GCOLL_AGREE_NONE || (a->best_ballot != GCOLL_AGREE_NONE && ballot <= a->best_ballot))
        return true;
    a->best_ballot = ballot;
    return copy(&a->best, accord, accord_bytes);
}

static bool become_leader(gcoll_agree *a) {
    a->voices = calloc(a->size, sizeof *a->voices);
    if (!a->voices || !hear(a, a->rank, a->bits, a->number, a->row.data, a->row.count, a->ballot,
                            a->accord.data, a->accord.count))
        return false;
    send_to_all(a, CALL, NULL);
    return true;
}

/* ---- Who is gone ---------------------------------------------------------------------------- */

/* After the set of ranks that are gone has grown, or at the beginning. */
static void follow(gcoll_agree *a) {
    uint32_t leader = 0;
    if (in_set(a->gone, a->rank)) {
        a->is_left_out = true;
        return;
    }
    while (gcoll_agree_is_gone(a, leader))
        leader++;
    if (a->decided && !a->settled && a->teller != a->rank && gcoll_agree_is_gone(a, a->teller))
        pass_on(a);
    if (leader != a->leader && !a->decided) {
        a->leader = leader;
        if (leader != a->rank)
            give(a);
        else if (!become_leader(a))
            a->failed = true;
    }
    if (a->leader == a->rank && !a->failed)
        lead(a);
}

/* Tells a rank that it counts as gone: if it lives, it may be waiting for this one. */
static void tell(gcoll_agree *a, uint32_t rank) {
    if (rank != a->rank && !a->is_left_out)
        send_to(a, rank, CALL, NULL, NULL);
}

void gcoll_agree_lose(gcoll_agree *a, uint32_t rank) {
    if (gcoll_agree_is_gone(a, rank))
        return;
    add_to_set(a->gone, rank);
    tell(a, rank);
    follow(a);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static const char *take_contribution(gcoll_agree *a, uint32_t from, const uint8_t *body, size_t count) {
    const size_t row = count < GIVE_HEAD ? 0 : gcoll_get_le(body + NUMBER + NUMBER, SHORT);
    if (count < GIVE_HEAD || row > count - GIVE_HEAD)
        return "a contribution that is too short";
    const uint32_t ballot = (uint32_t)gcoll_get_le(body + NUMBER + NUMBER + SHORT, SHORT);
    const uint8_t *accord = body + GIVE_HEAD + row;
    const size_t accord_bytes = count - GIVE_HEAD - row;
    if (ballot == GCOLL_AGREE_NONE ? accord_bytes != 0
                                   : ballot >= a->size || !is_accord(a, accord, accord_bytes))
        return "a contribution with a broken accord";
    if (a->decided) {
        send_to(a, from, PASS, &a->accord, NULL);
        return NULL;
    }
    if (a->leader != a->rank || a->proposed)
        return "a contribution that is not for this rank";
    if (!hear(a, from, gcoll_get_le(body, NUMBER), gcoll_get_le(body + NUMBER, NUMBER), body + GIVE_HEAD, row,
              ballot, accord, accord_bytes))
        a->failed = true;
    else
        lead(a);
    return NULL;
}

static const char *take_proposal(gcoll_agree *a, uint32_t from, uint32_t ballot, const uint8_t *body,
                                 size_t count) {
    if (!is_accord(a, body, count))
        return "a broken proposal";
    if (a->decided) {
        send_to(a, from, PASS, &a->accord, NULL);
        return NULL;
    }
    if (from != a->leader || ballot != from)
        return "a proposal, though it does not lead";
    a->ballot = ballot;
    if (copy(&a->accord, body, count))
        send_to(a, from, ACCEPT, NULL, NULL);
    else
        a->failed = true;
    return NULL;
}

/* The rank has accepted the proposal of this leader, and may have decided on it. */
static void take_accepted(gcoll_agree *a, uint32_t from, bool decided) {
    a->voices[from].accepted = true;
    a->voices[from].decided = a->voices[from].decided || decided;
    lead(a);
}

/* teller: the rank that will say when all have decided, or NONE. */
static const char *take_decision(gcoll_agree *a, uint32_t from, uint32_t teller, const uint8_t *body,
                                 size_t count) {
    if (!is_accord(a, body, count))
        return "a broken accord";
    if (!a->decided && !copy(&a->accord, body, count)) {
        a->failed = true;
        return NULL;
    }
    if (!a->decided) {
        decide(a, teller);
        if (teller == GCOLL_AGREE_NONE)
            pass_on(a);
    }
    if (teller != GCOLL_AGREE_NONE)
        send_to(a, from, DECIDED, NULL, NULL);
    else if (a->proposed) /* the sender is settled, and may not answer this leader's DECIDE */
        take_accepted(a, from, true);
    return NULL;
}

/* Adds a set that a rank has sent to the own one. */
static void merge(gcoll_agree *a, const uint8_t *set) {
    bool grown = false;
    for (uint32_t rank = 0; rank < a->size; rank++)
        if (in_set(set, rank) && !gcoll_agree_is_gone(a, rank)) {
            add_to_set(a->gone, rank);
            tell(a, rank);
            grown = true;
        }
    if (grown)
        follow(a);
}

uint64_t gcoll_agree_instance_of(const uint8_t *bytes, size_t count) {
    return count < HEAD ? 0 : gcoll_get_le(bytes + KIND, NUMBER);
}

const char *gcoll_agree_take(gcoll_agree *a, uint32_t from, const uint8_t *bytes, size_t count) {
    const size_t set = gcoll_agree_set_bytes(a->size);
    if (count < HEAD + set)
        return "a message that is too short";
    const uint32_t ballot = (uint32_t)gcoll_get_le(bytes + KIND + NUMBER, SHORT);
    const uint8_t *body = bytes + HEAD + set;
    count -= HEAD + set;
    if (ballot >= a->size)
        return "a message with an impossible leader";
    if (gcoll_agree_is_gone(a, from))
        return NULL; /* it has been told so */
    merge(a, bytes + HEAD);
    if (a->is_left_out || a->failed)
        return NULL;
    if (gcoll_agree_instance_of(bytes, HEAD) != a->instance)
        return NULL; /* of an earlier one, which all ranks have decided or will hear of */
    const bool is_bare = bytes[0] == CALL || bytes[0] == ACCEPT || bytes[0] == DECIDED || bytes[0] == DONE;
    if (is_bare && count > 0)
        return "a message that is too long";
    switch (bytes[0]) {
    case CALL: /* its set has been merged */
        return NULL;
    case GIVE:
        return take_contribution(a, from, body, count);
    case PROPOSE:
        return take_proposal(a, from, ballot, body, count);
    case DECIDE:
        return take_decision(a, from, from, body, count);
    case PASS:
        return take_decision(a, from, GCOLL_AGREE_NONE, body, count);
    case ACCEPT:
    case DECIDED:
        if (a->proposed)
            take_accepted(a, from, bytes[0] == DECIDED);
        return NULL;
    case DONE:
        a->settled = a->settled || a->decided;
        return NULL;
    default:
        return "a message of an unknown kind";
    }
}

/* ---- The whole ------------------------------------------------------------------------------ */

bool gcoll_agree_begin(gcoll_agree *a, uint64_t bits, uint64_t number, const void *row, size_t row_bytes) {
    a->bits = bits;
    a->number = number;
    a->leader = a->ballot = a->teller = a->best_ballot = GCOLL_AGREE_NONE;
    if (!copy(&a->row, row, row_bytes)) {
        a->failed = true;
        return false;
    }
    follow(a);
    for (uint32_t other = 0; other < a->size; other++)
        if (gcoll_agree_is_gone(a, other)) /* maybe since the last instance */
            tell(a, other);
    return !a->failed;
}

void gcoll_agree_end(gcoll_agree *a) {
    for (uint32_t rank = 0; a->voices && rank < a->size; rank++)
        drop(&a->voices[rank].row);
    free(a->voices);
    a->voices = NULL;
    drop(&a->row);
    drop(&a->accord);
    drop(&a->best);
}

void gcoll_agree_each_waited(const gcoll_agree *a, void (*fn)(void *arg, uint32_t rank), void *arg) {
    if (a->settled || a->is_left_out || a->failed)
        return;
    if (a->leader != a->rank) {
        fn(arg, a->decided ? a->teller : a->leader);
        return;
    }
    for (uint32_t rank = 0; rank < a->size; rank++) {
        const gcoll_agree_voice *voice = &a->voices[rank];
        const bool has_come = a->decided    ? voice->decided
                              : a->proposed ? voice->accepted
                                            : voice->contributed;
        if (rank != a->rank && !gcoll_agree_is_gone(a, rank) && !has_come)
            fn(arg, rank);
    }
}
