/*
 * transport/session/lane.c - which lane moves the bytes of a session, and the lanes of an endpoint.
 *
 * Both greetings list lanes. The two ranks take the first lane in the list of the lower rank that the other
 * lists, too, so both take the same. A lane that cannot be had after all is refused by either end; both then
 * take the next. The end that refuses does not stand, so it has sent no message by that lane. If the other
 * stands already, the session breaks.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "transport/session/branch.h"
#include "transport/session/connect.h"

#define WHY_BYTES 512
/* A rank that has refused the last lane has so long to say what it lacks. */
#define REFUSED_MS 1000
/* Polls of a lane before news of a peer counts. Each takes a hundred arrivals, of which there are only so
 * many. */
#define CATCH_UP_MOST 10000

/* A doubt goes on while a backlog of data arrives by the session's own connection, as the cause may be told
 * behind it: at least so many bytes in the time of the doubt, which answers to probes are not; and at most so
 * many times as long. */
#define DOUBT_BACKLOG 4096
#define DOUBT_TIMES   30
/* A peer that said goodbye has so long, since something came, to deliver the rest by other connections. */
#define REST_MS 5000

static const gcoll_flow_lane flow_lane_afterwards;

/* Adds why one lane is not taken, to a text of WHY_BYTES. */
static void add_why(char *why, const char *name, const char *text) {
    gcoll_text to = {why, WHY_BYTES, strlen(why)};
    gcoll_text_add(&to, "%s%s: %s", to.used > 0 ? "; " : "", name, text);
}

/* ---- The endpoint's lanes -------------------------------------------------------------------------- */

/* Closes the last of the endpoint's lanes. Keeps the last error. */
static void close_last(gcoll_net *net) {
    gcoll_net_lane *own = &net->lanes[--net->lane_count];
    if (own->watched) { /* the handle is closed with the loop */
        uv_poll_stop(&own->poll);
        own->watched = false;
    }
    if (own->lane->close && own->port)
        own->lane->close(own->port);
    own->port = NULL;
}

static gcoll_status open_lane(gcoll_net *net, const gcoll_lane *lane, const gcoll_endpoint_options *options) {
    gcoll_net_lane *own = &net->lanes[net->lane_count];
    own->lane = lane;
    net->lane_count++; /* a lane may watch a descriptor while it opens */
    const gcoll_status status = lane->open ? lane->open(net, options, &own->port) : GCOLL_OK;
    if (status != GCOLL_OK) {
        close_last(net);
        return status;
    }
    net->polls_lanes = net->polls_lanes || lane->poll;
    return GCOLL_OK;
}

/* With encryption no lane may move anything to other hosts in clear, unless that is allowed by its name. */
static gcoll_status check_encryption(const gcoll_net *net, const gcoll_lane_row *row,
                                     const gcoll_lane *wider) {
    if (!gcoll_net_tls(net))
        return GCOLL_OK;
    if (wider && wider->is_clear)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.transport: %s with several connections cannot encrypt them; allowed with "
                           "options.encryption 'on' is one",
                           row->name);
    if (row->lane->is_clear && !net->encryption.lets_ibverbs)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.transport: %s cannot encrypt what it moves; options.encryption 'on:%s' "
                           "lets it move data in clear",
                           row->name, row->name);
    return GCOLL_OK;
}

/* Opens a lane that the options name, and before it the wider one that they ask for by its name. */
static gcoll_status open_row(gcoll_net *net, const gcoll_lane_row *row,
                             const gcoll_endpoint_options *options) {
    if (!row->lane)
        return gcoll_error(GCOLL_ERR_INVALID, "options.transport: names %s, which goes with no other",
                           row->name);
    const gcoll_lane *wider = row->lane->wider ? row->lane->wider(options) : NULL;
    gcoll_status status = check_encryption(net, row, wider);
    if (status != GCOLL_OK)
        return status;
    if (wider && net->lane_count < GCOLL_LANES_MAX)
        status = open_lane(net, wider, options);
    if (status == GCOLL_OK && net->lane_count < GCOLL_LANES_MAX)
        status = open_lane(net, row->lane, options);
    return status;
}

/* Keeps why a lane of "auto" cannot be opened, to be told with the lane that is taken in its place. */
static void pass_over(gcoll_net *net, const char *name) {
    if (!net->passed_over)
        net->passed_over = calloc(1, WHY_BYTES);
    if (net->passed_over)
        add_why(net->passed_over, name, gcoll_last_error());
}

gcoll_status gcoll_net_open_lanes(gcoll_net *net, const gcoll_endpoint_options *options) {
    for (uint32_t i = 0; i < options->lane_count; i++) {
        const gcoll_lane_row *row = options->lanes[i].lane;
        const gcoll_status status = open_row(net, row, options);
        const bool is_absent = status != GCOLL_OK && status != GCOLL_ERR_INVALID;
        if (is_absent && options->may_lack && i + 1 < options->lane_count)
            pass_over(net, row->name);
        else if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

int64_t gcoll_lane_option_number(const gcoll_endpoint_options *options, const char *lane, const char *option,
                                 int64_t fallback) {
    int64_t number = fallback;
    for (uint32_t i = 0; i < options->lane_count; i++)
        if (strcmp(options->lanes[i].lane->name, lane) == 0)
            gcoll_lane_number(&options->lanes[i], option, &number);
    return number;
}

void gcoll_lane_limits(const gcoll_endpoint_options *options, const char *lane, uint64_t *eager,
                       uint64_t *pool) {
    *eager = (uint64_t)gcoll_lane_option_number(options, lane, "eager_bytes", (int64_t)options->eager_bytes);
    *pool =
        (uint64_t)gcoll_lane_option_number(options, lane, "pool_bytes", (int64_t)options->eager_pool_bytes);
}

gcoll_status gcoll_lane_set_limits(const gcoll_endpoint_options *options, const char *lane,
                                   uint64_t eager_default, uint64_t eager_most, uint64_t *eager,
                                   uint64_t *pool) {
    gcoll_lane_limits(options, lane, eager, pool);
    *pool = *pool > 0 ? *pool : GCOLL_FLOW_POOL_BYTES;
    *eager = *eager > 0 ? *eager : eager_default;
    if (*pool < GCOLL_FLOW_POOL_MIN || *pool > GCOLL_FLOW_POOL_MAX)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.eager_pool_bytes: is %llu; allowed are 0 (default) and %llu to %llu",
                           (unsigned long long)*pool, (unsigned long long)GCOLL_FLOW_POOL_MIN,
                           (unsigned long long)GCOLL_FLOW_POOL_MAX);
    const uint64_t half = *pool / 2 - GCOLL_FLOW_OVERHEAD_BYTES;
    *eager = *eager < half ? *eager : half;
    *eager = *eager < eager_most ? *eager : eager_most;
    return GCOLL_OK;
}

void gcoll_net_close_lanes(gcoll_net *net) {
    while (net->lane_count > 0)
        close_last(net);
    net->polls_lanes = false;
}

void gcoll_net_forget_lanes(gcoll_net *net) {
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i] &&
            (!net->sessions[i]->lane.taken || !net->sessions[i]->lane.taken->lane->uses_stream)) {
            gcoll_session *session = net->sessions[i];
            session->lane.taken = NULL;
            session->lane.state = NULL;
            session->lane.stands = session->lane.is_stream = false;
            session->flow.lane = &flow_lane_afterwards;
        }
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (!net->lanes[i].lane->uses_stream) {
            if (net->lanes[i].lane->forget && net->lanes[i].port)
                net->lanes[i].lane->forget(net->lanes[i].port);
            net->lanes[i].port = NULL;
            net->lanes[i].watched = false;
        }
    net->polls_lanes = false;
}

void gcoll_net_flush_lanes(gcoll_net *net) {
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->flush)
            net->lanes[i].lane->flush(net->lanes[i].port);
}

bool gcoll_net_poll_lanes(gcoll_net *net) {
    bool moved = false;
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->poll)
            moved = net->lanes[i].lane->poll(net->lanes[i].port) || moved;
    net->busy = net->busy || moved;
    return moved;
}

void gcoll_net_arm_lanes(gcoll_net *net) {
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->arm)
            net->lanes[i].lane->arm(net->lanes[i].port);
}

void gcoll_net_list_offers(const gcoll_net *net, uint8_t lanes[GCOLL_LANES_MAX]) {
    memset(lanes, 0, GCOLL_LANES_MAX);
    for (uint32_t i = 0; i < net->lane_count; i++)
        lanes[i] = net->lanes[i].lane->number;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    const gcoll_net_lane *own = poll->data;
    (void)status;
    (void)events;
    if (own->lane->disarm)
        own->lane->disarm(own->port);
    own->lane->poll(own->port);
}

gcoll_status gcoll_net_watch(gcoll_net *net, const gcoll_lane *lane, int fd) {
    gcoll_net_lane *own = net->lanes;
    while (own->lane != lane)
        own++;
    const gcoll_status status = gcoll_net_start(net);
    if (status != GCOLL_OK)
        return status;
    int error = uv_poll_init(&net->loop, &own->poll, fd);
    if (error == 0) {
        own->poll.data = own;
        own->watched = true;
        error = uv_poll_start(&own->poll, UV_READABLE, on_readable);
    }
    return error == 0 ? GCOLL_OK
                      : gcoll_error(gcoll_status_of_errno(-error), "cannot wait for a descriptor: %s",
                                    uv_strerror(error));
}

/* ---- Before a lane stands, and after the peer left -------------------------------------------------- */

/* A flow that is not connected sends and completes nothing. */
const gcoll_flow_lane gcoll_no_flow_lane = {.fail = gcoll_lane_report_fail};

/* The lane has ended; messages that came whole may still be received. */

static void owe_nothing(gcoll_flow *flow) {
    (void)flow;
}

/* What the host must not touch cannot have come this way. */
static bool is_beyond_host(const gcoll_flow *flow, const gcoll_message *message) {
    (void)flow;
    return message->by_device && message->bytes > 0;
}

static void withdraw_nothing(gcoll_flow *flow, gcoll_slot *slot) {
    (void)flow;
    (void)slot;
}

static const gcoll_flow_pieces pieces_afterwards = {.takes = is_beyond_host, .withdraw = withdraw_nothing};

static const gcoll_flow_lane flow_lane_afterwards = {
    .owe = owe_nothing, .deliver = gcoll_lane_deliver, .pieces = &pieces_afterwards, GCOLL_LANE_REPORTS};

/* ---- Choosing -------------------------------------------------------------------------------------- */

static void note_why(gcoll_session *session, const char *name, const char *text) {
    gcoll_session_lane *lane = &session->lane;
    if (!lane->why)
        lane->why = calloc(1, WHY_BYTES);
    if (lane->why)
        add_why(lane->why, name, text);
}

static bool lists(const uint8_t offers[GCOLL_LANES_MAX], uint8_t number) {
    return number != 0 && memchr(offers, number, GCOLL_LANES_MAX);
}

/* The index of a lane of ours, by its number; lane_count if it is none of ours. */
static uint32_t index_of(const gcoll_net *net, uint8_t number) {
    uint32_t i = 0;
    while (i < net->lane_count && net->lanes[i].lane->number != number)
        i++;
    return i;
}

static const char *name_of(uint8_t number) {
    const gcoll_lane_row *at = gcoll_lane_rows;
    while (at->name && !(at->lane && at->lane->number == number))
        at++;
    if (at->name)
        return at->name;
    return number == GCOLL_LANE_STRIPES ? gcoll_lane_stripes.name : "an unknown one";
}

static void list_names(const uint8_t offers[GCOLL_LANES_MAX], char *text, size_t bytes) {
    gcoll_text to = {text, bytes, 0};
    text[0] = 0;
    for (uint32_t i = 0; i < GCOLL_LANES_MAX && offers[i] != 0; i++)
        gcoll_text_add(&to, "%s%s", i > 0 ? "," : "", name_of(offers[i]));
}

static void fail_without(gcoll_session *session, const uint8_t own[GCOLL_LANES_MAX]) {
    char ours[96], theirs[160];
    list_names(own, ours, sizeof ours);
    list_names(session->lane.offers, theirs, sizeof theirs);
    gcoll_session_fail(session, GCOLL_ERR_MISMATCH, "offers transport %s, and this rank %s: none is the same",
                       theirs[0] ? theirs : "none", ours);
}

/* The first lane of both, in the order of the lower rank, that is not refused, behind the `skip` first of
 * them; NULL: there is none. */
static const gcoll_net_lane *best_lane(const gcoll_session *session, uint32_t skip) {
    const gcoll_net *net = session->net;
    uint8_t own[GCOLL_LANES_MAX];
    gcoll_net_list_offers(net, own);
    const uint8_t *first = net->rank < session->rank ? own : session->lane.offers;
    const uint8_t *other = first == own ? session->lane.offers : own;
    for (uint32_t i = 0; i < GCOLL_LANES_MAX; i++) {
        const uint32_t index = index_of(net, first[i]);
        if (lists(other, first[i]) && index < net->lane_count && !(session->lane.refused & (1U << index)) &&
            skip-- == 0)
            return &net->lanes[index];
    }
    return NULL;
}

bool gcoll_session_has_choice(const gcoll_session *session) {
    return best_lane(session, 1) != NULL;
}

static void begin(gcoll_session *session, const gcoll_net_lane *lane) {
    session->lane.taken = lane;
    session->net->begun_count++;
    lane->lane->begin(session, lane->port);
}

void gcoll_session_take_lane(gcoll_session *session, const uint8_t offers[GCOLL_LANES_MAX]) {
    const gcoll_net *net = session->net;
    memcpy(session->lane.offers, offers, GCOLL_LANES_MAX);
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (!lists(offers, net->lanes[i].lane->number))
            note_why(session, net->lanes[i].lane->name, "the other rank does not offer it");
    const gcoll_net_lane *best = best_lane(session, 0);
    if (best) {
        begin(session, best);
        return;
    }
    uint8_t own[GCOLL_LANES_MAX];
    gcoll_net_list_offers(net, own);
    fail_without(session, own);
}

void gcoll_session_stand(gcoll_session *session, uint64_t own_eager, uint64_t own_pool, uint64_t peer_eager,
                         uint64_t peer_pool) {
    gcoll_session_lane *lane = &session->lane;
    const gcoll_lane *taken = lane->taken->lane;
    lane->stands = true;
    lane->is_stream = taken->uses_stream;
    session->net->begun_count--;
    gcoll_flow_set_lane(&session->flow, taken->flow, own_eager, own_pool);
    if (!session->is_gone)
        gcoll_flow_connect(&session->flow, peer_eager, peer_pool);
    gcoll_channels_connect(session);
    while (lane->accesses.first && session->state == GCOLL_SESSION_CONNECTED)
        taken->access(session, (gcoll_remote_access *)gcoll_message_pop(&lane->accesses));
}

/* Ends what the lane has begun, and takes the next one. False: there is none. */
static bool leave_lane(gcoll_session *session, const char *text) {
    gcoll_session_lane *lane = &session->lane;
    gcoll_net *net = session->net;
    const gcoll_lane *left = lane->taken->lane;
    note_why(session, left->name, text);
    lane->refused |= 1U << (uint32_t)(lane->taken - net->lanes);
    const gcoll_net_lane *next = best_lane(session, 0);
    if (!next)
        return false;
    net->begun_count--;
    if (left->end)
        left->end(session);
    lane->state = NULL;
    begin(session, next);
    return true;
}

static void say(gcoll_session *session, gcoll_wire_word word, const uint8_t *bytes, uint32_t count) {
    uint8_t frame[GCOLL_WIRE_HEADER_BYTES + GCOLL_LANE_WORD_MAX];
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_LANE,
                                      .index = session->lane.taken->lane->number,
                                      .stream = word,
                                      .fragment_bytes = count};
    gcoll_wire_put_header(frame, &header);
    memcpy(frame + GCOLL_WIRE_HEADER_BYTES, bytes, count);
    gcoll_session_append_control(session, frame, GCOLL_WIRE_HEADER_BYTES + count);
}

void gcoll_session_say(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    say(session, GCOLL_WIRE_WORD, bytes, count);
}

void gcoll_session_flush(gcoll_session *session) {
    gcoll_session_write(session);
}

void gcoll_session_refuse(gcoll_session *session, gcoll_status status, const char *text) {
    const char *said = text ? text : gcoll_last_error();
    if (session->state != GCOLL_SESSION_CONNECTED || session->net->leaving)
        return; /* it has failed for another reason, not reported yet */
    say(session, GCOLL_WIRE_REFUSAL, (const uint8_t *)said, (uint32_t)strnlen(said, GCOLL_LANE_WORD_MAX));
    if (leave_lane(session, said))
        return;
    session->lane.tells = true;
    if (text)
        gcoll_session_fail(session, status, "%s", text);
    else
        gcoll_net_fail(session->net, status);
}

void gcoll_session_on_lane(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *bytes) {
    const gcoll_net_lane *taken = session->lane.taken;
    const uint32_t index = header->index <= UINT8_MAX ? index_of(session->net, (uint8_t)header->index)
                                                      : session->net->lane_count;
    if (session->net->leaving)
        return;
    if (index < session->net->lane_count && (session->lane.refused & (1U << index)))
        return; /* our refusal and this word have crossed */
    if (session->lane.in_doubt)
        return; /* the peer has left the lane that stood here, and speaks of the next one */
    if (!taken || taken->lane->number != header->index || !taken->lane->hear) {
        gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (a word of a lane that was not taken)");
        return;
    }
    if (header->stream == GCOLL_WIRE_WORD) {
        taken->lane->hear(session, bytes, header->fragment_bytes);
        return;
    }
    if (header->stream != GCOLL_WIRE_REFUSAL) {
        gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (a word of no kind)");
        return;
    }
    char text[GCOLL_LANE_WORD_MAX + 32];
    snprintf(text, sizeof text, "refused by the other rank: %.*s", (int)header->fragment_bytes,
             (const char *)bytes);
    gcoll_text_clean(text);
    if (session->lane.stands || !leave_lane(session, text)) /* it is about to abort, and says why */
        gcoll_session_doubt(session, REFUSED_MS, false, "cannot be reached by %s (%s)", taken->lane->name,
                            text);
}

void gcoll_session_drop_lane(gcoll_session *session) {
    const gcoll_net_lane *taken = session->lane.taken;
    gcoll_message_queue_clear(&session->lane.accesses);
    if (taken && taken->lane->drop)
        taken->lane->drop(session);
}

void gcoll_session_end_lane(gcoll_session *session) {
    gcoll_session_lane *lane = &session->lane;
    gcoll_session_end_doubt(session);
    gcoll_message_queue_clear(&lane->accesses);
    free(lane->why);
    lane->why = NULL;
    if (lane->taken) {
        if (!lane->stands)
            session->net->begun_count--;
        if (lane->taken->lane->end)
            lane->taken->lane->end(session);
    }
    lane->taken = NULL;
    lane->state = NULL;
    lane->stands = lane->is_stream = false;
    session->flow.lane = &flow_lane_afterwards;
}

void gcoll_session_catch_up(gcoll_session *session) {
    const gcoll_net_lane *taken = session->lane.taken;
    uint32_t polls = 0;
    if (taken && taken->lane->catch_up) {
        taken->lane->catch_up(session);
        return;
    }
    while (taken && taken->lane->poll && polls < CATCH_UP_MOST && taken->lane->poll(taken->port))
        polls++;
}

/* ---- Doubts ---------------------------------------------------------------------------------------- */

void gcoll_session_end_doubt(gcoll_session *session) {
    gcoll_session_lane *lane = &session->lane;
    session->net->doubt_count -= (uint32_t)lane->in_doubt + (uint32_t)lane->awaits_rest;
    lane->in_doubt = lane->awaits_rest = false;
}

void gcoll_session_doubt(gcoll_session *session, int64_t ms, bool follows, const char *format, ...) {
    gcoll_session_lane *lane = &session->lane;
    if (session->state != GCOLL_SESSION_CONNECTED || lane->awaits_rest ||
        (lane->in_doubt && !(lane->only_follows && !follows)))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(session->verdict_text, sizeof session->verdict_text, format, arguments);
    va_end(arguments);
    session->net->doubt_count += !lane->in_doubt;
    lane->in_doubt = true;
    lane->only_follows = follows;
    lane->doubt_ms = ms;
    lane->doubt_until_ms = gcoll_now_ms() + ms;
    lane->doubt_last_ms = lane->doubt_until_ms + (DOUBT_TIMES - 1) * ms;
    lane->doubt_heard = session->heard;
}

/* Whether a doubt whose time is over goes on. */
static bool is_prolonged(gcoll_session *session, int64_t now) {
    gcoll_session_lane *lane = &session->lane;
    const bool does =
        lane->is_stream && now < lane->doubt_last_ms && session->heard - lane->doubt_heard >= DOUBT_BACKLOG;
    lane->doubt_heard = session->heard;
    lane->doubt_until_ms = does ? now + lane->doubt_ms : lane->doubt_until_ms;
    return does;
}

bool gcoll_session_awaits_rest(gcoll_session *session) {
    gcoll_session_lane *lane = &session->lane;
    const gcoll_lane *taken = lane->stands ? lane->taken->lane : NULL;
    const int64_t now = gcoll_now_ms();
    gcoll_lane_sight sight = {0};
    if (!taken || !taken->is_coming || !taken->is_coming(session))
        return false;
    taken->look(session, &sight);
    if (!lane->awaits_rest) {
        gcoll_session_end_doubt(session);
        lane->awaits_rest = true;
        session->net->doubt_count++;
    } else if (sight.heard == lane->rest_heard) {
        return now < lane->rest_until_ms;
    }
    lane->rest_heard = sight.heard;
    lane->rest_until_ms = now + REST_MS;
    return true;
}

void gcoll_net_settle_doubts(gcoll_net *net) {
    const int64_t now = gcoll_now_ms();
    for (uint32_t i = 0; i < net->size && net->doubt_count > 0; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session->lane.awaits_rest && session->goes)
            gcoll_session_gone(session);
        else if (session && session->lane.awaits_rest)
            gcoll_session_depart(session);
        if (session && session->input.goodbye && session->lane.in_doubt)
            gcoll_session_end_doubt(session); /* it has left, and the end of its connection is on its way */
        if (session && session->lane.in_doubt && now >= session->lane.doubt_until_ms &&
            !is_prolonged(session, now)) {
            char text[GCOLL_SESSION_VERDICT_TEXT];
            snprintf(text, sizeof text, "%s", session->verdict_text);
            session->lane.tells = true;
            gcoll_session_fail(session, GCOLL_ERR_PEER, "%s", text);
        }
    }
}

/* ---- For lanes ------------------------------------------------------------------------------------- */

uint32_t gcoll_session_rank(const gcoll_session *session) {
    return session->rank;
}

gcoll_net *gcoll_session_net(const gcoll_session *session) {
    return session->net;
}

bool gcoll_session_has_taken(const gcoll_session *session, const gcoll_lane *lane) {
    return session->lane.taken && session->lane.taken->lane == lane;
}

void *gcoll_session_lane_state(const gcoll_session *session) {
    return session->lane.state;
}

void gcoll_session_set_lane_state(gcoll_session *session, void *state) {
    session->lane.state = state;
}

bool gcoll_session_is_well(const gcoll_session *session) {
    return session->state == GCOLL_SESSION_CONNECTED && !session->lane.in_doubt;
}

bool gcoll_session_may_move(const gcoll_session *session) {
    return gcoll_session_is_well(session) && !session->net->leaving;
}

void gcoll_lane_report_complete(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_push_receive((gcoll_session *)(void *)flow, message);
}

void gcoll_lane_report_unexpected(gcoll_flow *flow) {
    gcoll_session_unexpected((gcoll_session *)(void *)flow);
}

void gcoll_lane_report_fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_session_fail((gcoll_session *)(void *)flow, status, "%s", text);
}

void gcoll_session_deliver(gcoll_session *session, gcoll_slot *slot) {
    const gcoll_message *message = slot->message;
    const uint64_t early = slot->received;
    if (message->consume) {
        slot->received = 0;
        gcoll_session_consume(session, slot, slot->held, early);
    } else if (early > 0) {
        memcpy(message->data, slot->held, (size_t)early);
    }
}

void gcoll_lane_deliver(gcoll_flow *flow, gcoll_slot *slot) {
    gcoll_session_deliver((gcoll_session *)(void *)flow, slot);
}

void gcoll_session_complete(gcoll_session *session, gcoll_message *message) {
    gcoll_session_push(session, message);
}

void gcoll_session_complete_receive(gcoll_session *session, gcoll_message *message) {
    gcoll_session_push_receive(session, message);
}

void gcoll_session_unexpected(gcoll_session *session) {
    if (session->net->curious)
        session->net->moved = true;
}

void gcoll_session_opened(gcoll_session *session, uint64_t stream, const uint8_t *fingerprint) {
    gcoll_session_open(session, stream, fingerprint);
}

void gcoll_net_fail(gcoll_net *net, gcoll_status status) {
    gcoll_net_problem(net, status, "%s", gcoll_last_error());
}

bool gcoll_net_is_leaving(const gcoll_net *net) {
    return net->leaving;
}

gcoll_session *gcoll_net_session(const gcoll_net *net, uint32_t rank) {
    return rank < net->size ? net->sessions[rank] : NULL;
}

void gcoll_net_moved(gcoll_net *net) {
    net->moves++;
}

gcoll_lane_port *gcoll_net_port(gcoll_endpoint *endpoint, const gcoll_lane *lane) {
    const gcoll_net *net = gcoll_net_of(endpoint);
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane == lane)
            return net->lanes[i].port;
    return NULL;
}

const gcoll_address *gcoll_net_own_address(const gcoll_net *net) {
    return &net->address;
}

/* ---- What is told of it ---------------------------------------------------------------------------- */

void gcoll_net_count(gcoll_endpoint *endpoint, gcoll_endpoint_counts *counts) {
    const gcoll_net *net = gcoll_net_of(endpoint);
    *counts = (gcoll_endpoint_counts){.sleeps = net->sleeps, .asleep_ns = net->asleep_ns};
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->registrations)
            counts->registrations += net->lanes[i].lane->registrations(net->lanes[i].port);
}

void gcoll_net_count_peer(gcoll_endpoint *endpoint, uint32_t peer, gcoll_peer_counts *counts) {
    const gcoll_session *session = gcoll_net_session(gcoll_net_of(endpoint), peer);
    memset(counts, 0, sizeof *counts);
    if (!session)
        return;
    if (session->socket)
        counts->retransmitted = gcoll_socket_retransmitted(session->socket);
    if (!session->lane.stands)
        return;
    const gcoll_lane *lane = session->lane.taken->lane;
    counts->lane = lane->name;
    if (lane->retransmitted)
        counts->retransmitted += lane->retransmitted(session);
}

void gcoll_net_explain(gcoll_endpoint *endpoint, uint32_t peer, char *text, size_t bytes) {
    const gcoll_net *net = gcoll_net_of(endpoint);
    const gcoll_session *session = gcoll_net_session(net, peer);
    if (!session || !session->lane.taken) {
        snprintf(text, bytes, "not connected");
        return;
    }
    const gcoll_lane *taken = session->lane.taken->lane;
    gcoll_text to = {text, bytes, 0};
    if (session->lane.stands && taken->describe)
        taken->describe(session, &to);
    else
        gcoll_text_add(&to, "%s%s", taken->name, session->lane.stands ? "" : ", not yet");
    const char *const passed = net->passed_over, *const why = session->lane.why;
    if (passed || why)
        gcoll_text_add(&to, " (%s%s%s)", passed ? passed : "", passed && why ? "; " : "", why ? why : "");
}
