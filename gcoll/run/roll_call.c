/*
 * gcoll/run/roll_call.c - barrier reports: rank 0 lists the ranks that call within a time limit, and sends
 * the list to the others.
 *
 * Each rank numbers its own calls. For each call it sends rank 0 an empty message. By the number of these
 * messages rank 0 knows how often a rank has called. When a call of rank 0 ends, it lists the ranks that have
 * called as often as itself, and sends them the list. A rank that comes later gets the list at once, and
 * finds that it is not on it. So a late message never counts for a later report, and rank 0 remembers only
 * the latest list.
 *
 * These messages are no requests, because a rank may be absent forever. Messages in flight stay in flight
 * between calls, one in each direction for each rank, and are dropped with the context. No wait in this file
 * can break the context. Other threads may use the context during a wait; only further reports wait for their
 * turn.
 */
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

/* To and from rank 0. */
#define STREAM_CALLED (GCOLL_STREAM_ROLL | 1)
#define STREAM_LIST   (GCOLL_STREAM_ROLL | 2)

#define SLICE_MS 100 /* the longest sleep while a list is waited for */
#define SLACK_MS 500 /* beyond the limits: for rank 0 to wake up, and for a list to arrive */

/* A list as it is sent: the number of the report, then a bit for each rank. */
#define NUMBER_BYTES 8

typedef struct roll_list {
    uint32_t uses; /* by the roll, and by each message that carries it */
    uint8_t bytes[];
} roll_list;

/* A rank, as rank 0 keeps it. */
typedef struct roll_caller {
    struct gcoll_roll *roll;
    uint64_t calls;    /* calls that the rank has told of */
    uint64_t answered; /* value of `calls` when the rank was last sent a list */
    uint32_t lists;    /* lists sent to it */
    roll_list *sending;
    gcoll_message called, list;
} roll_caller;

struct gcoll_roll {
    gcoll_context *context;
    uint64_t calls; /* runs->reports at the latest call of this rank; 0: none yet */
    bool is_taken;  /* a thread is in a report */

    /* Rank 0. */
    roll_caller *callers; /* by rank; NULL on other ranks */
    uint64_t closed;      /* reports that have ended */
    roll_list *latest;

    /* The other ranks. */
    bool telling, hearing; /* the message is in flight */
    uint64_t told;         /* messages posted */
    uint32_t heard;        /* lists received */
    uint64_t list_calls;   /* how often rank 0 had called when it made the latest list; 0: none has come */
    gcoll_message tell, hear;
    uint8_t *heard_bytes;
};

/* ---- Lists ----------------------------------------------------------------------------------- */

static uint64_t list_bytes(const gcoll_context *context) {
    return NUMBER_BYTES + ((uint64_t)context->size + 7) / 8;
}

static roll_list *make_list(gcoll_context *context) {
    roll_list *list = gcoll_allocate_zeroed(context, sizeof *list + list_bytes(context));
    if (list)
        list->uses = 1;
    return list;
}

static void let_go(gcoll_context *context, roll_list *list) {
    if (list && --list->uses == 0)
        gcoll_release(context, list, sizeof *list + list_bytes(context));
}

static bool is_listed(const uint8_t *bytes, uint32_t rank) {
    return bytes[NUMBER_BYTES + rank / 8] >> rank % 8 & 1;
}

static void put_on_list(uint8_t *bytes, uint32_t rank) {
    bytes[NUMBER_BYTES + rank / 8] |= (uint8_t)(1U << rank % 8);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static gcoll_roll *make_roll(gcoll_context *context) {
    gcoll_roll *roll = gcoll_allocate_zeroed(context, sizeof *roll);
    if (!roll)
        return NULL;
    roll->context = context;
    if (context->rank == 0)
        roll->callers = gcoll_allocate_zeroed(context, context->size * sizeof *roll->callers);
    else
        roll->heard_bytes = gcoll_allocate_zeroed(context, list_bytes(context));
    if (roll->callers || roll->heard_bytes)
        return roll;
    gcoll_release(context, roll, sizeof *roll);
    return NULL;
}

void gcoll_roll_free(gcoll_context *context) {
    gcoll_roll *roll = context->runs->roll;
    if (!roll)
        return;
    for (uint32_t rank = 0; roll->callers && rank < context->size; rank++)
        let_go(context, roll->callers[rank].sending);
    let_go(context, roll->latest);
    gcoll_release(context, roll->callers, context->size * sizeof *roll->callers);
    gcoll_release(context, roll->heard_bytes, list_bytes(context));
    gcoll_release(context, roll, sizeof *roll);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Makes progress until `done`, or for limit_ms. Only an error of the context ends it early. Other threads may
 * enter meanwhile, and may make the progress that `done` waits for; then they call gcoll_live_tell. */
static gcoll_status wait_until(gcoll_roll *roll, bool (*done)(gcoll_roll *roll), int64_t limit_ms) {
    gcoll_context *context = roll->context;
    const int64_t begun_ms = gcoll_now_ms();
    gcoll_status status = gcoll_progress(context, 0);
    while (status == GCOLL_OK && !done(roll)) {
        const int64_t left_ms = limit_ms - (gcoll_now_ms() - begun_ms);
        if (left_ms <= 0)
            break;
        gcoll_rendezvous_keep_if_due(context); /* a wait may outlast the keys' lifetime */
        status = gcoll_progress_shared(context, left_ms < SLICE_MS ? left_ms * 1000 : SLICE_MS * 1000);
        if (status == GCOLL_OK && context->guard.driver)
            gcoll_live_tend(context);
    }
    return status;
}

static bool is_free(gcoll_roll *roll) {
    return !roll->is_taken;
}

/* Waits until no other thread is in a report. Reports have limits, so this wait has none of its own. */
static gcoll_status take_turn(gcoll_roll *roll) {
    gcoll_status status = roll->is_taken ? wait_until(roll, is_free, GCOLL_NEVER_MS) : GCOLL_OK;
    if (status == GCOLL_OK)
        roll->is_taken = true;
    return status;
}

static void end_turn(gcoll_roll *roll) {
    roll->is_taken = false;
    gcoll_live_tell(roll->context);
}

/* ---- Rank 0 ---------------------------------------------------------------------------------- */

static void answer(roll_caller *caller);

static void list_sent(gcoll_message *message) {
    roll_caller *caller = message->owner;
    let_go(caller->roll->context, caller->sending);
    caller->sending = NULL;
    gcoll_live_tell(caller->roll->context);
    answer(caller); /* it may have called again meanwhile */
}

/* Sends the latest list to a rank that has called for it, or for an earlier one, and has not got it. */
static void answer(roll_caller *caller) {
    gcoll_roll *roll = caller->roll;
    gcoll_context *context = roll->context;
    const uint32_t rank = (uint32_t)(caller - roll->callers);
    if (caller->sending || caller->answered == caller->calls || caller->calls > roll->closed ||
        context->health.broken || gcoll_peer_has_departed(context, rank))
        return;
    caller->answered = caller->calls;
    caller->sending = roll->latest;
    caller->sending->uses++;
    caller->list = (gcoll_message){.stream = STREAM_LIST,
                                   .index = caller->lists++,
                                   .granule = 1,
                                   .bytes = list_bytes(context),
                                   .data = caller->sending->bytes,
                                   .done = list_sent,
                                   .owner = caller};
    context->transport->post_send(context->endpoint, rank, &caller->list);
}

static void has_called(gcoll_message *message);

static void await_call(roll_caller *caller) {
    gcoll_context *context = caller->roll->context;
    caller->called = (gcoll_message){.stream = STREAM_CALLED,
                                     .index = (uint32_t)caller->calls,
                                     .granule = 1,
                                     .background = true,
                                     .done = has_called,
                                     .owner = caller};
    context->transport->post_recv(context->endpoint, (uint32_t)(caller - caller->roll->callers),
                                  &caller->called);
}

static void has_called(gcoll_message *message) {
    roll_caller *caller = message->owner;
    gcoll_roll *roll = caller->roll;
    caller->calls++;
    gcoll_live_tell(roll->context);
    if (roll->context->health.broken)
        return;
    await_call(caller);
    answer(caller);
}

/* Whether no rank can still come: each has called, or has left the job. */
static bool all_have_called(gcoll_roll *roll) {
    for (uint32_t rank = 1; rank < roll->context->size; rank++)
        if (roll->callers[rank].calls < roll->calls && !gcoll_peer_has_departed(roll->context, rank))
            return false;
    return true;
}

static void begin_listening(gcoll_roll *roll) {
    for (uint32_t rank = 1; rank < roll->context->size; rank++) {
        roll->callers[rank].roll = roll;
        await_call(&roll->callers[rank]);
    }
}

/* Opens this rank's next report. */
static void open_report(gcoll_roll *roll) {
    if (roll->calls == 0)
        begin_listening(roll);
    roll->calls = roll->context->runs->reports;
}

/* Closes the report with a list of the ranks that have called, and sends it to them. */
static void close_report(gcoll_roll *roll, roll_list *list) {
    gcoll_context *context = roll->context;
    gcoll_put_le(list->bytes, roll->calls, NUMBER_BYTES);
    put_on_list(list->bytes, 0);
    for (uint32_t rank = 1; rank < context->size; rank++)
        if (roll->callers[rank].calls >= roll->calls)
            put_on_list(list->bytes, rank);
    let_go(context, roll->latest);
    roll->latest = list;
    roll->closed = roll->calls;
    for (uint32_t rank = 1; rank < context->size; rank++)
        answer(&roll->callers[rank]);
    gcoll_progress_flush(context);
}

/* Whether each rank that has called has received the list, or has left. */
static bool all_are_answered(gcoll_roll *roll) {
    for (uint32_t rank = 1; rank < roll->context->size; rank++)
        if (roll->callers[rank].sending && !gcoll_peer_has_departed(roll->context, rank))
            return false;
    return true;
}

static gcoll_status call_roll(gcoll_roll *roll, int64_t limit_ms, uint8_t *here) {
    gcoll_context *context = roll->context;
    open_report(roll);
    roll_list *list = make_list(context);
    if (!list)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_status status = wait_until(roll, all_have_called, limit_ms);
    if (status != GCOLL_OK) {
        let_go(context, list);
        return status;
    }
    close_report(roll, list);
    /* This rank may leave after its call. A rank that has given up takes no list before its next call. */
    status = wait_until(roll, all_are_answered, SLACK_MS);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t rank = 0; rank < context->size; rank++)
        here[rank] = is_listed(list->bytes, rank);
    return GCOLL_OK;
}

/* ---- The other ranks ------------------------------------------------------------------------- */

/* Tells rank 0 of the next call that it does not know of. One message at a time is in flight. */
static void tell_next(gcoll_roll *roll);

static void was_told(gcoll_message *message) {
    gcoll_roll *roll = message->owner;
    roll->telling = false;
    tell_next(roll);
}

static void tell_next(gcoll_roll *roll) {
    gcoll_context *context = roll->context;
    if (roll->telling || roll->told == roll->calls || context->health.broken ||
        gcoll_peer_has_departed(context, 0))
        return;
    roll->telling = true;
    roll->tell = (gcoll_message){.stream = STREAM_CALLED,
                                 .index = (uint32_t)roll->told++,
                                 .granule = 1,
                                 .announced = true,
                                 .done = was_told,
                                 .owner = roll};
    context->transport->post_send(context->endpoint, 0, &roll->tell);
}

static void list_came(gcoll_message *message) {
    gcoll_roll *roll = message->owner;
    roll->hearing = false;
    gcoll_live_tell(roll->context);
    roll->list_calls = gcoll_get_le(roll->heard_bytes, NUMBER_BYTES);
}

static void hear_next(gcoll_roll *roll) {
    gcoll_context *context = roll->context;
    roll->hearing = true;
    roll->hear = (gcoll_message){.stream = STREAM_LIST,
                                 .index = roll->heard++,
                                 .granule = 1,
                                 .bytes = list_bytes(context),
                                 .data = roll->heard_bytes,
                                 .done = list_came,
                                 .owner = roll};
    context->transport->post_recv(context->endpoint, 0, &roll->hear);
}

/* Whether the list of this call, or of a later one, has come; lists of earlier calls are passed over. */
static bool has_list(gcoll_roll *roll) {
    if (roll->hearing)
        return false;
    if (roll->list_calls >= roll->calls)
        return true;
    hear_next(roll);
    return !roll->hearing && roll->list_calls >= roll->calls;
}

/* Whether there is a list, or rank 0 has left and sends none. */
static bool has_list_or_none(gcoll_roll *roll) {
    return has_list(roll) || gcoll_peer_has_departed(roll->context, 0);
}

static gcoll_status answer_roll(gcoll_roll *roll, int64_t limit_ms, uint8_t *here) {
    gcoll_context *context = roll->context;
    roll->calls = context->runs->reports;
    if (!gcoll_peer_has_departed(context, 0) && !gcoll_peer_need(context, 0, false))
        return gcoll_context_settle(context);
    tell_next(roll);
    gcoll_progress_flush(context);
    const int64_t patience_ms = limit_ms >= GCOLL_NEVER_MS ? limit_ms : 2 * limit_ms + SLACK_MS;
    gcoll_status status = wait_until(roll, has_list_or_none, patience_ms);
    if (status != GCOLL_OK)
        return status;
    const bool has = has_list(roll);
    for (uint32_t rank = 0; rank < context->size; rank++)
        here[rank] = has ? is_listed(roll->heard_bytes, rank) : rank == context->rank;
    if (has && roll->list_calls > roll->calls)
        here[context->rank] = 0; /* late by more than one report */
    return GCOLL_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static gcoll_status report(gcoll_context *context, int64_t timeout_ms, uint8_t *here) {
    const int64_t limit_ms = gcoll_timeout_of(context, timeout_ms);
    gcoll_status status = gcoll_context_settle(context);
    if (status != GCOLL_OK)
        return status;
    if (context->size == 1) {
        here[0] = 1;
        return GCOLL_OK;
    }
    if (!context->runs->roll)
        context->runs->roll = make_roll(context);
    gcoll_roll *roll = context->runs->roll;
    status = roll ? take_turn(roll) : GCOLL_ERR_NO_MEMORY;
    if (status == GCOLL_OK || !roll)
        context->runs->reports++; /* even if this report fails: the other ranks count it too */
    if (status != GCOLL_OK)
        return status;
    status = context->rank == 0 ? call_roll(roll, limit_ms, here) : answer_roll(roll, limit_ms, here);
    end_turn(roll);
    return status;
}

gcoll_status gcoll_barrier_report(gcoll_context *context, int64_t timeout_ms, uint8_t here[]) {
    if (!context || !here)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "here" : "context");
    gcoll_status status = gcoll_timeout_check("timeout_ms", timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = report(context, timeout_ms, here);
    gcoll_leave(context);
    return status;
}
