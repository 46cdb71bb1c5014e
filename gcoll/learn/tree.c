/*
 * gcoll/learn/tree.c - times of calls go up a tree of the ranks, and are summed on their way; lessons come
 * down it.
 *
 * Each lesson of a site has one message a rank upwards and one downwards. A rank reports when its own counted
 * calls have ended and all ranks below it have reported. Bytes from peers are not trusted: a report or a
 * lesson that makes no sense breaks the context, as the ranks would choose differently from then on.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/base/hash.h"
#include "gcoll/learn/learn_internal.h"
#include "gcoll/run/run.h"

#define STREAM_REPORT (GCOLL_STREAM_LEARN | UINT64_C(1) << 32) /* plus the kind of call, as 32 bits */
#define STREAM_LESSON (GCOLL_STREAM_LEARN | UINT64_C(2) << 32)

#define LONGEST_NS 1e15 /* limit for times: 11 days */

/* Byte offsets; numbers are little-endian. */
enum { REPORT_FLAGS = 0, REPORT_SAMPLES = 8, REPORT_BYTES = REPORT_SAMPLES + 8 * GCOLL_LEARN_SAMPLES };

enum {
    LESSON_NUMBER = 0,
    LESSON_BEGIN = 8,
    LESSON_USUAL = 16,
    LESSON_TRIED = 20,
    LESSON_BURST = 24,
    LESSON_ROUNDS = 28,
    LESSON_CALLS = 32,
    LESSON_LAG = 36,
    LESSON_BYTES = 40
};

void gcoll_learn_place(gcoll_learn *learn) {
    const uint64_t rank = learn->context->rank, size = learn->context->size;
    const uint64_t first = rank * GCOLL_LEARN_FAN + 1, end = first + GCOLL_LEARN_FAN;
    learn->above = rank == 0 ? GCOLL_NO_RANK : (uint32_t)((rank - 1) / GCOLL_LEARN_FAN);
    learn->below = (uint32_t)(first < size ? first : size);
    learn->fan = (uint32_t)((end < size ? end : size) - learn->below);
}

/* The kind of call as 32 bits: ranks that speak of different ones never hear each other. */
static uint32_t kind_of(const gcoll_learn_site *site) {
    return (uint32_t)gcoll_hash_mix(gcoll_hash_bytes(GCOLL_HASH_START, &site->call, sizeof site->call));
}

/* ---- Boxes ----------------------------------------------------------------------------------- */

static uint8_t *give(gcoll_learn *learn, gcoll_learn_box *box, gcoll_learn_site *site, uint8_t *at,
                     size_t bytes) {
    box->learn = learn;
    box->site = site;
    box->bytes = at;
    return at + bytes;
}

gcoll_status gcoll_learn_open(gcoll_learn *learn, gcoll_learn_site *site, gcoll_study *study) {
    const size_t bytes = (size_t)(learn->fan + 1) * (REPORT_BYTES + LESSON_BYTES);
    study->memory = malloc(bytes);
    if (!study->memory)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu bytes of times", bytes);
    uint8_t *at = give(learn, &study->report, site, study->memory, REPORT_BYTES);
    at = give(learn, &study->lesson_in, site, at, LESSON_BYTES);
    for (uint32_t i = 0; i < learn->fan; i++) {
        at = give(learn, &study->below[i], site, at, REPORT_BYTES);
        at = give(learn, &study->lesson_out[i], site, at, LESSON_BYTES);
    }
    return GCOLL_OK;
}

static void sent(gcoll_message *message) {
    ((gcoll_learn_box *)message->owner)->is_posted = false;
}

static void came(gcoll_message *message) {
    gcoll_learn_box *box = message->owner;
    box->is_posted = false;
    box->has_come = true;
    gcoll_live_due(box->learn->context, &gcoll_learn_activity);
}

static void post(gcoll_learn_box *box, uint32_t peer, uint64_t stream, uint64_t bytes, bool sends) {
    const gcoll_context *context = box->learn->context;
    box->message = (gcoll_message){.stream = stream | kind_of(box->site),
                                   .index = box->site->study->lesson.number,
                                   .granule = 1,
                                   .bytes = bytes,
                                   .data = box->bytes,
                                   .background = !sends,
                                   .done = sends ? sent : came,
                                   .owner = box};
    box->is_posted = true;
    if (sends)
        context->transport->post_send(context->endpoint, peer, &box->message);
    else
        context->transport->post_recv(context->endpoint, peer, &box->message);
}

/* A rank that has left makes no call that the message is for. */
static void send(gcoll_learn_box *box, uint32_t peer, uint64_t stream, uint64_t bytes) {
    gcoll_context *context = box->learn->context;
    if (!gcoll_peer_has_departed(context, peer) && gcoll_peer_need(context, peer, false) &&
        !gcoll_peer_has_departed(context, peer))
        post(box, peer, stream, bytes, true);
}

void gcoll_learn_listen(gcoll_learn *learn, gcoll_learn_site *site) {
    gcoll_study *study = site->study;
    memset(study->sums, 0, sizeof study->sums);
    study->missing = gcoll_lesson_samples(&study->lesson);
    study->unheard = learn->fan;
    study->has_reported = study->is_told = false;
    study->flags = 0;
    for (uint32_t i = 0; i < learn->fan; i++)
        post(&study->below[i], learn->below + i, STREAM_REPORT, REPORT_BYTES, false);
    if (learn->above != GCOLL_NO_RANK)
        post(&study->lesson_in, learn->above, STREAM_LESSON, LESSON_BYTES, false);
}

/* ---- Up --------------------------------------------------------------------------------------- */

static void nonsense(gcoll_learn *learn, uint32_t peer, const char *what, const gcoll_learn_site *site) {
    gcoll_break(learn->context, GCOLL_ERR_PROTOCOL, peer,
                "rank %u sent %s of calls of %s that makes no sense", peer, what,
                gcoll_collective_name((gcoll_collective)site->call.collective));
}

/* Adds what has come from below. False: the context broke. */
static bool hear(gcoll_learn *learn, gcoll_learn_site *site, uint32_t i) {
    gcoll_study *study = site->study;
    const uint8_t *bytes = study->below[i].bytes;
    study->below[i].has_come = false;
    study->unheard--;
    study->flags |= (uint32_t)gcoll_get_le(bytes + REPORT_FLAGS, 4);
    for (uint32_t k = 0; k < GCOLL_LEARN_SAMPLES; k++) {
        const uint64_t bits = gcoll_get_le(bytes + REPORT_SAMPLES + 8 * (size_t)k, 8);
        double ns;
        memcpy(&ns, &bits, sizeof ns);
        if (!(ns >= 0) || ns > LONGEST_NS) {
            nonsense(learn, learn->below + i, "times", site);
            return false;
        }
        study->sums[k] += ns;
    }
    return true;
}

static void report(gcoll_learn *learn, gcoll_learn_site *site) {
    gcoll_study *study = site->study;
    uint8_t *bytes = study->report.bytes;
    gcoll_put_le(bytes + REPORT_FLAGS, study->flags, 4);
    for (uint32_t k = 0; k < GCOLL_LEARN_SAMPLES; k++) {
        const double ns = fmin(study->sums[k], LONGEST_NS);
        uint64_t bits;
        memcpy(&bits, &ns, sizeof bits);
        gcoll_put_le(bytes + REPORT_SAMPLES + 8 * (size_t)k, bits, 8);
    }
    send(&study->report, learn->above, STREAM_REPORT, REPORT_BYTES);
}

/* ---- Down ------------------------------------------------------------------------------------- */

static void write_lesson(const gcoll_lesson *lesson, uint8_t *bytes) {
    gcoll_put_le(bytes + LESSON_NUMBER, lesson->number, 4);
    gcoll_put_le(bytes + LESSON_BEGIN, lesson->begin, 8);
    gcoll_put_le(bytes + LESSON_USUAL, lesson->usual, 4);
    gcoll_put_le(bytes + LESSON_TRIED, lesson->tried, 4);
    gcoll_put_le(bytes + LESSON_BURST, lesson->burst, 4);
    gcoll_put_le(bytes + LESSON_ROUNDS, lesson->rounds, 4);
    gcoll_put_le(bytes + LESSON_CALLS, lesson->calls, 4);
    gcoll_put_le(bytes + LESSON_LAG, lesson->lag, 4);
}

/* Instead of a lesson: nothing more is learned. */
static gcoll_lesson closing(const gcoll_lesson *lesson) {
    return (gcoll_lesson){
        .begin = gcoll_lesson_end(lesson), .number = lesson->number + 1, .usual = lesson->usual};
}

static bool is_closing(const gcoll_lesson *next, const gcoll_lesson *lesson) {
    return next->calls == 0 && next->tried == 0 && next->usual == lesson->usual;
}

/* Reads the next lesson. False: the context broke. */
static bool read_lesson(gcoll_learn *learn, const gcoll_learn_site *site, gcoll_lesson *next) {
    gcoll_study *study = site->study;
    const uint8_t *bytes = study->lesson_in.bytes;
    study->lesson_in.has_come = false;
    if (!study->has_reported) {
        nonsense(learn, learn->above, "a lesson ahead of all times", site);
        return false;
    }
    *next = (gcoll_lesson){.number = (uint32_t)gcoll_get_le(bytes + LESSON_NUMBER, 4),
                           .begin = gcoll_get_le(bytes + LESSON_BEGIN, 8),
                           .usual = (uint32_t)gcoll_get_le(bytes + LESSON_USUAL, 4),
                           .tried = (uint32_t)gcoll_get_le(bytes + LESSON_TRIED, 4),
                           .burst = (uint32_t)gcoll_get_le(bytes + LESSON_BURST, 4),
                           .rounds = (uint32_t)gcoll_get_le(bytes + LESSON_ROUNDS, 4),
                           .calls = (uint32_t)gcoll_get_le(bytes + LESSON_CALLS, 4),
                           .lag = (uint32_t)gcoll_get_le(bytes + LESSON_LAG, 4)};
    if (next->number != study->lesson.number + 1 || next->begin != gcoll_lesson_end(&study->lesson) ||
        (!is_closing(next, &study->lesson) && !gcoll_lesson_is_valid(next, study->count))) {
        nonsense(learn, learn->above, "a lesson", site);
        return false;
    }
    return true;
}

/* Follows what comes next, and tells the ranks below. */
static void tell(gcoll_learn *learn, gcoll_learn_site *site, const gcoll_lesson *next) {
    gcoll_study *study = site->study;
    if (is_closing(next, &study->lesson)) {
        study->is_closed = true;
    } else if (study->is_closed) { /* this rank has said that it is ahead */
        nonsense(learn, learn->above, "a lesson after the last one", site);
        return;
    } else {
        study->next = *next;
        study->has_next = true;
    }
    study->is_told = true;
    gcoll_live_tell(learn->context);
    for (uint32_t i = 0; i < learn->fan; i++) {
        write_lesson(next, study->lesson_out[i].bytes);
        send(&study->lesson_out[i], learn->below + i, STREAM_LESSON, LESSON_BYTES);
    }
}

/* Rank 0. */
static gcoll_lesson decide(const gcoll_learn *learn, gcoll_study *study) {
    if (study->flags & GCOLL_LEARN_CLOSES)
        return closing(&study->lesson);
    for (uint32_t k = 0; k < GCOLL_LEARN_SAMPLES; k++)
        study->sums[k] /= learn->context->size;
    gcoll_lesson next = gcoll_judge_next(&study->judge, &study->lesson, study->sums);
    if (study->flags & GCOLL_LEARN_STARTS)
        next.lag = GCOLL_LEARN_LONG_LAG;
    return next;
}

/* Another call has begun, and of a loose kind a meeting after it: so the job goes on, and the ranks above are
 * still there. */
bool gcoll_learn_is_over(const gcoll_learn *learn, const gcoll_learn_site *site) {
    const gcoll_lesson *lesson = &site->study->lesson;
    if (site->study->missing > 0)
        return false;
    if (site->is_loose &&
        !site->study->is_closed) /* else this rank has passed the fence, and still owes its report */
        return site->fence != 0 && learn->meetings + GCOLL_LEARN_FENCE > site->fence;
    return site->pace.calls >= lesson->begin + lesson->calls;
}

static void tend(gcoll_learn *learn, gcoll_learn_site *site) {
    gcoll_study *study = site->study;
    gcoll_lesson next;
    for (uint32_t i = 0; i < learn->fan; i++)
        if (study->below[i].has_come && !hear(learn, site, i))
            return;
    if (gcoll_learn_is_over(learn, site) && study->unheard == 0 && !study->has_reported) {
        study->has_reported = true;
        if (site->is_loose && learn->starts_meetings)
            study->flags |= GCOLL_LEARN_CLOSES;
        if (learn->above == GCOLL_NO_RANK) {
            next = decide(learn, study);
            tell(learn, site, &next);
        } else {
            report(learn, site);
        }
    }
    if (study->lesson_in.has_come && read_lesson(learn, site, &next))
        tell(learn, site, &next);
}

void gcoll_learn_tend(gcoll_context *context) {
    gcoll_learn *learn = context->learn;
    gcoll_live_not_due(context, &gcoll_learn_activity);
    for (uint32_t i = 0; i < learn->count && !context->health.broken; i++)
        if (learn->sites[i]->study && !learn->sites[i]->study->is_told)
            tend(learn, learn->sites[i]);
    gcoll_runs_release(context);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

const gcoll_learn_site *gcoll_learn_awaited(const gcoll_learn *learn) {
    if (learn->waits)
        return learn->waits;
    const gcoll_taught *first = gcoll_held_first(learn->context);
    if (!first || first->undecided_call == 0)
        return NULL;
    const gcoll_learn_site *site = gcoll_learn_site_of(learn, first->token);
    const gcoll_study *study = site->study;
    const bool is_known =
        study->has_next || study->is_closed || first->undecided_call < gcoll_lesson_end(&study->lesson);
    return is_known ? NULL : site;
}

void gcoll_learn_each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg) {
    const gcoll_learn *learn = context->learn;
    const gcoll_learn_site *site = learn ? gcoll_learn_awaited(learn) : NULL;
    if (!site)
        return;
    const gcoll_study *study = site->study;
    for (uint32_t i = 0; i < learn->fan; i++)
        if (study->below[i].is_posted && !fn(arg, learn->below + i))
            return;
    if (study->unheard == 0 && learn->above != GCOLL_NO_RANK)
        fn(arg, learn->above);
}
