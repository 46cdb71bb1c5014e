/* gcoll/council/council.c - the council of a context: its endpoint, its messages, and the ranks that are
 * gone. */
#include "gcoll/council/council.h"

#include "gcoll/recovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/live/live.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/run.h"

#define STREAM       UINT64_C(1)
#define WAIT_STEP_US INT64_C(5000)
#define HELD_UP_MS   INT64_C(100) /* a longer pause between two looks was this thread's own */
#define PROBES       8            /* in the time after which a rank counts as gone, */
#define PROBE_MIN_MS INT64_C(50)  /* but not more often */
#define PROBE_MAX_MS INT64_C(1000)
#define FLUSH_MS     INT64_C(500) /* for the last messages of an agreement to be written */
#define ANSWERS_MAX                                                                                          \
    8 /* limits for which a rank may be waited for that answers on the context, and does not come */
/* Of the cause of a context that an agreement breaks. */
#define AGREED_TO_BE_GONE "is gone, as the ranks that are left have agreed"
#define NAME_BYTES        (GCOLL_DOING_MAX + 1) /* of the call, before each row */

/* A message on its way out. */
typedef struct letter {
    gcoll_message message; /* the first: letter_of */
    struct letter *next, **link;
    gcoll_council *council;
    uint32_t to;
    uint8_t bytes[];
} letter;

/* What the council knows of a rank. */
typedef struct member {
    char *address;
    bool connecting;
    uint32_t sent, taken;  /* messages, which gives their indices */
    gcoll_message receive; /* of the message that is coming, */
    uint8_t *bytes;        /* and its data; NULL: none is */
    size_t count;
    bool has_come;
    const char
        *lost; /* why it is gone, once all messages that came from it have been taken; NULL: it is not */
    char lost_text[96];
    uint32_t letters;             /* on their way to it */
    bool is_told;                 /* it is being told that the context is broken */
    bool is_waited;               /* this rank cannot go on without it, */
    int64_t silent_ms, probed_ms; /* and nothing has come from it for so long; at which it was last probed */
    int64_t waited_ms;            /* so long it has been waited for */
    uint64_t heard;
} member;

struct gcoll_council {
    gcoll_context *context;
    const gcoll_transport *transport;
    gcoll_endpoint *endpoint;
    uint32_t rank, size;
    uint8_t *gone; /* a bit for each rank */
    member *members;
    letter *letters;
    gcoll_agree agree;
    bool is_open; /* an agreement has begun and not ended: of a call that failed */
    uint64_t instance;
    int64_t timeout_ms;   /* of the agreement at hand; 0: the context's */
    gcoll_context *child; /* of the agreement at hand, or NULL */
    bool is_left_out;     /* other ranks take this one for gone */
    bool heeds_break;     /* it is known that the context is broken */
    bool has_judged;      /* an agreement has ended since it broke: who is gone is known by that */
    bool failed;
};

/* ---- Who is gone ---------------------------------------------------------------------------- */

static bool is_gone(const gcoll_council *council, uint32_t rank) {
    return council->gone[rank / 8] >> rank % 8 & 1;
}

static void leave_out(gcoll_council *council) {
    council->is_left_out = council->agree.is_left_out = true;
}

/* Whether other ranks have broken the context because of this one. They may have gone on without it; or it
 * lives, answers and was late, and they are in this agreement, too. */
static bool is_blamed(const gcoll_council *council) {
    const gcoll_health *health = &council->context->health;
    return health->broken && health->cause.culprit == council->rank &&
           (health->cause.status == GCOLL_ERR_TIMEOUT || strstr(health->cause.text, AGREED_TO_BE_GONE));
}

static bool is_last_but(const gcoll_council *council, uint32_t rank) {
    for (uint32_t other = 0; other < council->size; other++)
        if (other != rank && other != council->rank && !is_gone(council, other))
            return false;
    return true;
}

static void lose(gcoll_council *council, uint32_t rank, const char *why) {
    if (is_gone(council, rank) || rank == council->rank)
        return;
    if (is_blamed(council) && is_last_but(council, rank)) { /* it is not all the others who are gone */
        leave_out(council);
        return;
    }
    gcoll_log(council->context, GCOLL_LOG_WARNING, "rank %u is gone: it %s", rank, why);
    if (council->is_open)
        gcoll_agree_lose(&council->agree, rank);
    else
        council->gone[rank / 8] = (uint8_t)(council->gone[rank / 8] | 1U << rank % 8);
}

/* Its connection has ended. What came from it before may say that this rank is the one that is gone. */
static void note_lost(gcoll_council *council, uint32_t rank, const char *why) {
    member *m = &council->members[rank];
    if (m->lost)
        return;
    snprintf(m->lost_text, sizeof m->lost_text, "%s", why);
    m->lost = m->lost_text;
}

static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_council *council = arg;
    if (status == GCOLL_ERR_NO_MEMORY || status == GCOLL_ERR_INVALID) {
        gcoll_error(status, "rank %u: %s", council->rank, text);
        council->failed = true;
    } else
        note_lost(council, peer, text);
}

static void on_departed(void *arg, uint32_t peer) {
    note_lost(arg, peer, "left the job");
}

static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
    (void)note;
    note_lost(arg, from, "aborted its council");
}

static void on_changed(void *arg, uint32_t peer, const char *text) {
    note_lost(arg, peer, text);
}

static void on_opened(void *arg, uint32_t peer, uint64_t stream,
                      const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    (void)arg, (void)peer, (void)stream, (void)fingerprint;
}

static void on_answered(void *arg, uint32_t peer, const gcoll_answer *answer) {
    (void)arg, (void)peer, (void)answer; /* sight.heard has grown */
}

/* ---- Messages ------------------------------------------------------------------------------- */

static gcoll_status begin_to_connect(gcoll_council *council, uint32_t rank) {
    member *m = &council->members[rank];
    if (m->connecting)
        return GCOLL_OK;
    const gcoll_status status = m->address ? council->transport->connect(council->endpoint, rank, m->address)
                                           : gcoll_error(GCOLL_ERR_PROTOCOL, "its council has no address");
    m->connecting = status == GCOLL_OK;
    return status;
}

static bool reach(gcoll_council *council, uint32_t rank) {
    const gcoll_status status = begin_to_connect(council, rank);
    if (status == GCOLL_ERR_NO_MEMORY)
        council->failed = true;
    else if (status != GCOLL_OK)
        lose(council, rank, gcoll_last_error());
    return status == GCOLL_OK;
}

static void end_letter(letter *l) {
    l->council->members[l->to].letters--;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    free(l);
}

static void letter_done(gcoll_message *message) {
    end_letter(message->owner);
}

static bool send_letter(void *arg, uint32_t to, const uint8_t *bytes, size_t count) {
    gcoll_council *council = arg;
    letter *l = calloc(1, sizeof *l + count);
    if (!l) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a message of %zu bytes", count);
        return false;
    }
    memcpy(l->bytes, bytes, count);
    l->council = council;
    l->to = to;
    council->members[to].letters++;
    l->message = (gcoll_message){.stream = STREAM,
                                 .index = council->members[to].sent++,
                                 .bytes = count,
                                 .data = l->bytes,
                                 .announced = true,
                                 .done = letter_done,
                                 .owner = l};
    l->next = council->letters;
    l->link = &council->letters;
    if (l->next)
        l->next->link = &l->next;
    council->letters = l;
    council->transport->post_send(council->endpoint, to, &l->message);
    return true;
}

static void receive_done(gcoll_message *message) {
    member *m = message->owner;
    m->has_come = true;
}

/* No message is longer: two accords of the longest rows. */
static uint64_t longest(const gcoll_council *council) {
    return 2 * ((uint64_t)council->size * (GCOLL_ROW_MAX + NAME_BYTES + 16) + 4096);
}

/* Begins to receive the next message of a rank, if there is one. */
static void look_for(gcoll_council *council, uint32_t rank) {
    member *m = &council->members[rank];
    uint64_t bytes = 0;
    if (m->bytes || !council->transport->peek(council->endpoint, rank, STREAM, m->taken, &bytes))
        return;
    if (bytes > longest(council)) {
        lose(council, rank, "sent a message to the council that is too long");
        return;
    }
    m->bytes = malloc(bytes ? bytes : 1);
    if (!m->bytes) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a message of %llu bytes", (unsigned long long)bytes);
        council->failed = true;
        return;
    }
    m->count = bytes;
    m->has_come = false;
    m->receive = (gcoll_message){.stream = STREAM,
                                 .index = m->taken,
                                 .bytes = bytes,
                                 .data = m->bytes,
                                 .done = receive_done,
                                 .owner = m};
    council->transport->post_recv(council->endpoint, rank, &m->receive);
}

/* Takes the message of a rank that has come, unless it is for a later agreement. Returns whether it was
 * taken. */
static bool take_from(gcoll_council *council, uint32_t rank) {
    member *m = &council->members[rank];
    if (!m->bytes || !m->has_come || gcoll_agree_instance_of(m->bytes, m->count) > council->instance)
        return false;
    uint8_t *bytes = m->bytes;
    m->bytes = NULL;
    m->taken++;
    const char *wrong = gcoll_agree_take(&council->agree, rank, bytes, m->count);
    free(bytes);
    if (wrong) {
        char why[128];
        snprintf(why, sizeof why, "sent %s to the council", wrong);
        lose(council, rank, why);
    }
    return true;
}

static void take_all(gcoll_council *council) {
    for (uint32_t rank = 0; rank < council->size; rank++) {
        if (rank == council->rank)
            continue;
        do
            look_for(council, rank);
        while (take_from(council, rank));
        if (council->members[rank].lost && !council->agree.is_left_out)
            lose(council, rank, council->members[rank].lost);
    }
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static void mark_waited(void *arg, uint32_t rank) {
    gcoll_council *council = arg;
    council->members[rank].is_waited = true;
}

/* After which silence a rank counts as gone. Ranks that wait in a collective for one that is silent give it
 * up after up to one and a half of the context's timeout, and until then they do not come here. */
static int64_t limit_of(const gcoll_council *council) {
    const int64_t limit_ms = gcoll_timeout_of(council->context, council->timeout_ms);
    return council->timeout_ms == 0 && !council->heeds_break ? 2 * limit_ms : limit_ms;
}

/* Finds the ranks that this one waits for. If the leader is silent, those that would lead after it are, too:
 * if a host with several of them is gone, that takes the time of one. */
static void find_waited(gcoll_council *council) {
    const gcoll_agree *agree = &council->agree;
    for (uint32_t rank = 0; rank < council->size; rank++)
        council->members[rank].is_waited = false;
    gcoll_agree_each_waited(agree, mark_waited, council);
    if (agree->leader < council->rank && !agree->decided &&
        council->members[agree->leader].silent_ms >= limit_of(council) / PROBES)
        for (uint32_t rank = agree->leader + 1; rank < council->rank; rank++)
            council->members[rank].is_waited = true;
}

/* The others may have learned only now that the context is broken. Its cause makes nobody gone: the culprit
 * may live, as one that answers and comes late, or whose connection was cut. The council finds out. */
static void heed_break(gcoll_council *council) {
    if (!council->context->health.broken || council->heeds_break)
        return;
    council->heeds_break = true;
    for (uint32_t rank = 0; rank < council->size; rank++)
        council->members[rank].silent_ms = council->members[rank].probed_ms = 0;
}

/* Whether collectives may still be under way on the context. */
static bool is_whole(const gcoll_council *council) {
    return !council->context->health.broken && council->context->endpoint;
}

/* A rank that is in a collective answers there, and comes later. Grows with what comes from it. */
static uint64_t heard_on_context(const gcoll_council *council, uint32_t rank) {
    gcoll_sight sight = {0};
    if (is_whole(council))
        council->context->transport->look(council->context->endpoint, rank, &sight);
    return sight.heard;
}

/* A rank may be in a collective on the broken context, connected to nobody who could tell it, and wait for
 * one that is dead. */
static void tell_of_break(gcoll_council *council, uint32_t rank) {
    gcoll_context *context = council->context;
    char address[GCOLL_ADDRESS_MAX];
    gcoll_note cause;
    if (council->members[rank].is_told || !context->health.told || !context->endpoint ||
        !gcoll_rendezvous_has_addresses(context)) /* a look into the store may take long */
        return;
    council->members[rank].is_told = true;
    if (gcoll_rendezvous_lookup(context, rank, address, sizeof address, &cause) == GCOLL_OK)
        (void)context->transport->connect(context->endpoint, rank, address); /* if not, it must wait */
}

/* Looks after the ranks that this one waits for: connects to them, probes them, and gives up those that are
 * silent. passed_ms: since the last time. */
static void tend(gcoll_council *council, int64_t passed_ms) {
    const int64_t limit_ms = limit_of(council);
    int64_t every_ms = limit_ms / PROBES;
    every_ms = every_ms < PROBE_MIN_MS ? PROBE_MIN_MS : every_ms > PROBE_MAX_MS ? PROBE_MAX_MS : every_ms;
    find_waited(council);
    for (uint32_t rank = 0; rank < council->size && !council->failed; rank++) {
        member *m = &council->members[rank];
        gcoll_sight sight;
        if (!m->is_waited || is_gone(council, rank) || !reach(council, rank)) {
            m->silent_ms = m->probed_ms = m->waited_ms = 0;
            continue;
        }
        tell_of_break(council, rank);
        council->transport->look(council->endpoint, rank, &sight);
        if (m->waited_ms / ANSWERS_MAX < limit_ms)
            sight.heard += heard_on_context(council, rank);
        if (sight.heard != m->heard)
            m->silent_ms = m->probed_ms = 0;
        m->heard = sight.heard;
        m->silent_ms += passed_ms;
        m->waited_ms += passed_ms;
        if (m->silent_ms >= limit_ms) {
            char why[96];
            snprintf(why, sizeof why, "did not take part in an agreement for %lld ms", (long long)limit_ms);
            lose(council, rank, why);
        } else if (m->silent_ms - m->probed_ms >= every_ms) {
            m->probed_ms = m->silent_ms;
            council->transport->probe(council->endpoint, rank);
            if (is_whole(council))
                council->context->transport->probe(council->context->endpoint, rank);
        }
    }
}

/* Letters to ranks that are there. Those to others may never be written. */
static bool has_letters(const gcoll_council *council) {
    for (uint32_t rank = 0; rank < council->size; rank++)
        if (council->members[rank].letters > 0 && !is_gone(council, rank))
            return true;
    return false;
}

/* Letters need a connection. */
static void reach_receivers(gcoll_council *council) {
    for (uint32_t rank = 0; rank < council->size; rank++)
        if (council->members[rank].letters > 0 && !is_gone(council, rank))
            reach(council, rank);
}

/* left: ranks that are not gone. */
static gcoll_status check_majority(const gcoll_council *council, uint32_t left) {
    return 2 * (uint64_t)left > council->size
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_PEER,
                             "only %u of %u ranks are left, which is no majority, as options.majority asks",
                             left, council->size);
}

static gcoll_status left_out(const gcoll_council *council) {
    return gcoll_error(GCOLL_ERR_PEER,
                       "rank %u was left out: other ranks take it for gone, and may have gone on without it",
                       council->rank);
}

/* Drives an endpoint that no call waits at: its port may have been that of a rank that is dead, and others
 * that connect to it for that rank must get an answer. */
static void drive(const gcoll_transport *transport, gcoll_endpoint *endpoint) {
    bool moved;
    if (endpoint)
        (void)transport->progress(endpoint, 0, &moved); /* an error shows when it is used */
}

static void drive_others(const gcoll_council *council) {
    gcoll_context *context = council->context, *child = council->child;
    if (is_whole(council)) /* peers may ask there whether this rank is alive */
        gcoll_progress(context, 0);
    else /* those that connect must be told that it is broken */
        drive(context->transport, context->endpoint);
    if (child)
        drive(child->transport, child->endpoint);
    if (child && child->council)
        drive(child->council->transport, child->council->endpoint);
}

/* One step: messages, ranks that are silent, progress. */
static gcoll_status step(gcoll_council *council, int64_t *before_ms) {
    bool moved = false;
    const int64_t now = gcoll_now_ms();
    const int64_t passed = now - *before_ms < HELD_UP_MS ? now - *before_ms : HELD_UP_MS;
    *before_ms = now;
    take_all(council);
    heed_break(council);
    tend(council, passed);
    reach_receivers(council);
    council->transport->flush(council->endpoint);
    gcoll_status status = council->failed ? GCOLL_ERR_NO_MEMORY : GCOLL_OK;
    if (status == GCOLL_OK && !council->agree.settled && !council->agree.is_left_out)
        status = council->transport->progress(council->endpoint, WAIT_STEP_US, &moved);
    if (status == GCOLL_OK)
        drive_others(council);
    return status;
}

static gcoll_status wait_for_accord(gcoll_council *council) {
    const gcoll_agree *agree = &council->agree;
    int64_t before_ms = gcoll_now_ms();
    for (;;) {
        council->is_left_out |= agree->is_left_out;
        if (council->is_left_out)
            return left_out(council);
        if (agree->failed)
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an agreement of %u ranks", council->size);
        if (agree->settled)
            return GCOLL_OK;
        const gcoll_status status = step(council, &before_ms);
        if (status != GCOLL_OK)
            return status;
    }
}

/* Hands to the system what others wait for. What cannot be written in this time goes with the next call. */
static void write_letters(gcoll_council *council) {
    const int64_t until_ms = gcoll_now_ms() + FLUSH_MS;
    bool moved;
    if (!council->endpoint) /* a single rank */
        return;
    council->transport->flush(council->endpoint);
    while (has_letters(council) && gcoll_now_ms() < until_ms) {
        reach_receivers(council);
        council->transport->flush(council->endpoint);
        if (council->transport->progress(council->endpoint, WAIT_STEP_US, &moved) != GCOLL_OK)
            return;
    }
}

/* ---- Agreements ----------------------------------------------------------------------------- */

static gcoll_status begin(gcoll_council *council, const gcoll_motion *motion) {
    uint8_t *row = calloc(1, NAME_BYTES + motion->row_bytes);
    if (!row)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an agreement");
    snprintf((char *)row, NAME_BYTES, "%s", motion->doing);
    if (motion->row_bytes)
        memcpy(row + NAME_BYTES, motion->row, motion->row_bytes);
    council->agree = (gcoll_agree){.rank = council->rank,
                                   .size = council->size,
                                   .instance = ++council->instance,
                                   .gone = council->gone,
                                   .send = send_letter,
                                   .arg = council};
    council->is_open = true;
    const bool is_begun =
        gcoll_agree_begin(&council->agree, motion->bits, motion->number, row, NAME_BYTES + motion->row_bytes);
    free(row);
    return is_begun
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an agreement of %u ranks", council->size);
}

static uint32_t left_in(const gcoll_council *council, const gcoll_agree_bytes *accord) {
    uint32_t left = 0;
    for (uint32_t rank = 0; rank < council->size; rank++)
        left += !gcoll_accord_is_gone(accord, rank);
    return left;
}

/* All ranks must have been in the same call; each of them finds the same. */
static gcoll_status compare(const gcoll_council *council, const gcoll_agree_bytes *accord) {
    const uint8_t *first = NULL, *row;
    uint32_t first_rank = 0;
    size_t bytes = 0;
    for (uint32_t rank = 0; rank < council->size; rank++) {
        row = gcoll_accord_row(accord, council->size, rank, &bytes);
        if (!row)
            continue;
        if (bytes < NAME_BYTES || row[NAME_BYTES - 1] != '\0')
            return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken row to an agreement", rank);
        if (!first) {
            first = row;
            first_rank = rank;
        } else if (strcmp((const char *)row, (const char *)first) != 0)
            return gcoll_error(GCOLL_ERR_MISMATCH, "rank %u %.*s, and rank %u %.*s", first_rank,
                               NAME_BYTES - 1, (const char *)first, rank, NAME_BYTES - 1, (const char *)row);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_council_agree(gcoll_context *context, const gcoll_motion *motion,
                                 gcoll_agree_bytes *accord) {
    gcoll_council *council = context->council;
    if (!council)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "the context was created without options.recovery; it must "
                                                  "be 1 on every rank when the context is created");
    if (motion->row_bytes > GCOLL_ROW_MAX)
        return gcoll_error(GCOLL_ERR_INTERNAL, "a row of %zu bytes", motion->row_bytes);
    if (council->failed)
        return gcoll_error(GCOLL_ERR_NO_MEMORY,
                           "this rank ran out of memory or descriptors in an earlier agreement");
    council->timeout_ms = motion->timeout_ms;
    gcoll_status status = GCOLL_OK;
    if (is_gone(council, council->rank) || council->is_left_out)
        return left_out(council);
    if (!council->is_open)
        status = begin(council, motion);
    heed_break(council);
    council->child = motion->child;
    if (status == GCOLL_OK)
        status = wait_for_accord(council);
    council->child = NULL;
    if (status == GCOLL_OK)
        write_letters(council);
    else if (!council->is_left_out)
        council->failed = true; /* what was begun cannot go on with another motion */
    if (status != GCOLL_OK)
        return status;
    if (context->health.broken)
        gcoll_council_judge(context);
    status = compare(council, &council->agree.accord);
    if (status == GCOLL_OK && motion->majority)
        status = check_majority(council, left_in(council, &council->agree.accord));
    if (status == GCOLL_OK) {
        *accord = council->agree.accord;
        council->agree.accord = (gcoll_agree_bytes){0};
    }
    gcoll_agree_end(&council->agree);
    council->is_open = false;
    return status;
}

bool gcoll_council_knows_gone(const gcoll_context *context, uint32_t rank) {
    return context->council && is_gone(context->council, rank);
}

void gcoll_council_judge(gcoll_context *context) {
    context->council->has_judged = true;
}

const uint8_t *gcoll_council_row(const gcoll_context *context, const gcoll_agree_bytes *accord, uint32_t rank,
                                 size_t *bytes) {
    const uint8_t *row = gcoll_accord_row(accord, context->size, rank, bytes);
    if (!row)
        return NULL;
    *bytes -= NAME_BYTES;
    return row + NAME_BYTES;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static const gcoll_events council_events = {.opened = on_opened,
                                            .failed = on_failed,
                                            .departed = on_departed,
                                            .aborted = on_aborted,
                                            .answered = on_answered,
                                            .changed = on_changed};

gcoll_status gcoll_council_open(gcoll_context *context, char address[GCOLL_ADDRESS_MAX]) {
    gcoll_council *council = calloc(1, sizeof *council);
    if (!council)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a council");
    context->council = council;
    context->jury = &gcoll_council_jury;
    council->context = context;
    council->rank = context->rank;
    council->size = context->size;
    council->gone = calloc(1, gcoll_agree_set_bytes(context->size));
    council->members = calloc(context->size, sizeof *council->members);
    if (!council->gone || !council->members)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a council of %u ranks", context->size);
    if (context->size == 1)
        return GCOLL_OK;
    gcoll_endpoint_options options = context->settings.endpoint;
    for (size_t i = 0; i < sizeof options.group; i++)
        options.group[i] = (uint8_t)~options.group[i];
    options.lanes = NULL;
    options.lane_count = 0;
    options.eager_bytes = options.eager_pool_bytes = 0;
    options.connects_on = true; /* the council knows better how long */
    gcoll_events events = council_events;
    events.arg = council;
    council->transport =
        context->transport == &gcoll_transport_inproc ? &gcoll_transport_inproc : &gcoll_transport_tcp;
    gcoll_status status = council->transport->open(&options, &events, &council->endpoint);
    return status == GCOLL_OK ? council->transport->address(council->endpoint, address, GCOLL_ADDRESS_MAX)
                              : status;
}

gcoll_status gcoll_council_know(gcoll_context *context, uint32_t rank, const char *address) {
    member *m = &context->council->members[rank];
    char *copy = strdup(address);
    if (!copy)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", context->size);
    free(m->address);
    m->address = copy;
    return GCOLL_OK;
}

gcoll_status gcoll_council_reach(gcoll_context *context, uint32_t rank) {
    return begin_to_connect(context->council, rank);
}

void gcoll_council_close(gcoll_context *context, int64_t limit_ms) {
    gcoll_council *council = context->council;
    if (!council)
        return;
    if (council->is_open) /* what the endpoint still tells is no news to it */
        gcoll_agree_end(&council->agree);
    council->is_open = false;
    if (council->endpoint && gcoll_is_forked(context))
        council->transport->abandon(council->endpoint);
    else if (council->endpoint)
        council->transport->close(council->endpoint, limit_ms);
    for (letter *l = council->letters, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    for (uint32_t rank = 0; council->members && rank < council->size; rank++) {
        free(council->members[rank].address);
        free(council->members[rank].bytes);
    }
    free(council->members);
    free(council->gone);
    free(council);
    context->council = NULL;
    context->jury = NULL;
}

/* ---- Who is known to be gone ---------------------------------------------------------------- */

/* The culprit may have been late only. It counts until an agreement, in which it takes part or not. */
static bool is_known_gone(const gcoll_context *context, uint32_t rank) {
    const gcoll_note *cause = &context->health.cause;
    const bool is_blamed = context->health.broken && cause->culprit == rank &&
                           (cause->status == GCOLL_ERR_PEER || cause->status == GCOLL_ERR_TIMEOUT);
    const gcoll_council *council = context->council;
    return (is_blamed && !(council && council->has_judged)) || (council && is_gone(council, rank));
}

gcoll_status gcoll_context_failed(gcoll_context *context, uint32_t *ranks, uint32_t room, uint32_t *count) {
    if (!context || !count || (!ranks && room > 0))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL",
                           !context ? "context"
                           : count  ? "ranks"
                                    : "count");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_context_heed_abort(context);
    uint32_t found = 0;
    for (uint32_t rank = 0; rank < context->size; rank++)
        if (is_known_gone(context, rank)) {
            if (found < room)
                ranks[found] = rank;
            found++;
        }
    *count = found;
    gcoll_leave(context);
    return GCOLL_OK;
}

uint64_t gcoll_context_completed(gcoll_context *context) {
    if (!context || gcoll_enter(context) != GCOLL_OK)
        return 0;
    const uint64_t completed = gcoll_runs_completed(context);
    gcoll_leave(context);
    return completed;
}

void gcoll_council_break_for_gone(gcoll_context *context, const gcoll_agree_bytes *accord) {
    uint32_t rank = 0;
    while (rank < context->size && !gcoll_accord_is_gone(accord, rank))
        rank++;
    if (rank == context->size)
        return;
    gcoll_break(context, GCOLL_ERR_PEER, rank, "rank %u is gone, as the ranks that are left have agreed",
                rank);
    gcoll_context_settle(context);
}

gcoll_status gcoll_context_agree(gcoll_context *context, uint64_t *bits, uint64_t *completed,
                                 int64_t timeout_ms) {
    if (!context || !bits)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "bits" : "context");
    gcoll_status status = gcoll_timeout_check("timeout_ms", timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_agree_bytes accord = {0};
    const gcoll_motion motion = {.doing = "calls gcoll_context_agree",
                                 .bits = *bits,
                                 .number = gcoll_runs_completed(context),
                                 .timeout_ms = timeout_ms};
    gcoll_context_settle(context); /* the others may not know yet that it is broken */
    status = gcoll_council_agree(context, &motion, &accord);
    if (status == GCOLL_OK) {
        *bits = gcoll_accord_bits(&accord);
        if (completed)
            *completed = gcoll_accord_number(&accord);
    }
    if (status == GCOLL_OK)
        gcoll_council_break_for_gone(context, &accord);
    free(accord.data);
    gcoll_leave(context);
    return status;
}
