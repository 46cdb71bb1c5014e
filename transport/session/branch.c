/* transport/session/branch.c - endpoints that share the connections of another, see branch.h. */
#include "transport/session/branch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "transport/session/connect.h"

/* While frames wait for room. */
#define WAIT_STEP_US INT64_C(1000)
/* A goodbye waits so long for room; afterwards it goes with whatever is sent next. */
#define GOODBYE_MS 100
/* For tables by number and rank: an odd number. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

static gcoll_branch *branch_of(gcoll_endpoint *endpoint) {
    return (gcoll_branch *)(void *)endpoint;
}

/* The rank in the branch of a rank of the trunk; UINT32_MAX: it has none. */
static uint32_t rank_of(const gcoll_branch *branch, uint32_t member) {
    uint32_t rank = 0;
    while (rank < branch->size && branch->members[rank] != member)
        rank++;
    return rank < branch->size ? rank : UINT32_MAX;
}

/* ---- What the flow of a channel calls --------------------------------------------------------------- */

static gcoll_channel *channel_of(gcoll_flow *flow) {
    return (gcoll_channel *)(void *)flow;
}

void gcoll_channel_speak(gcoll_channel *channel) {
    gcoll_session *session = channel->session;
    if (!channel->speaks) {
        channel->speaks = true;
        channel->next_speaking = session->speaking;
        session->speaking = channel;
    }
    session->output.credit = true;
    gcoll_session_want_output(session);
}

static void send_control(gcoll_flow *flow, const gcoll_flow_frame *control) {
    const gcoll_channel *channel = channel_of(flow);
    uint8_t bytes[GCOLL_SESSION_FIXED_HEADERS];
    const size_t count = gcoll_session_put_control(bytes, control);
    gcoll_session_append_grouped(channel->session, channel->branch->number, bytes, count);
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_enqueue(channel_of(flow)->session, message);
}

static void owe(gcoll_flow *flow) {
    gcoll_channel *channel = channel_of(flow);
    channel->credit = true;
    gcoll_channel_speak(channel);
}

static void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    gcoll_session_deliver(channel_of(flow)->session, slot);
}

static void complete(gcoll_flow *flow, gcoll_message *message) {
    gcoll_channel *channel = channel_of(flow);
    channel->posted -= !message->background;
    gcoll_session_push_receive(channel->session, message);
}

static void unexpected(gcoll_flow *flow) {
    gcoll_session_unexpected(channel_of(flow)->session);
}

/* Notes that the channel failed; the next report tells it. */
static void fault(gcoll_channel *channel, gcoll_status status, const char *text) {
    gcoll_net *net = channel->branch->net;
    if (channel->state == GCOLL_CHANNEL_FAILED || channel->branch->leaving)
        return;
    channel->state = GCOLL_CHANNEL_FAILED;
    channel->fault = status;
    channel->fault_text = strdup(text);
    channel->next_fault = net->faults;
    net->faults = channel;
}

/* A peer that breaks the protocol is trusted no more; other failures are those of the group alone. */
static void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_channel *channel = channel_of(flow);
    if (status == GCOLL_ERR_PROTOCOL)
        gcoll_session_fail(channel->session, status, "%s", text);
    else
        fault(channel, status, text);
}

/* Before the session is connected nothing is sent. */
static const gcoll_flow_lane lane_before = {.fail = fail};

static const gcoll_flow_lane lane = {.control = send_control,
                                     .enqueue = enqueue,
                                     .owe = owe,
                                     .deliver = deliver,
                                     .complete = complete,
                                     .unexpected = unexpected,
                                     .fail = fail};

static void owe_nothing(gcoll_flow *flow) {
    (void)flow;
}

/* After the peer left, messages that came whole may still be received. */
static const gcoll_flow_lane lane_afterwards = {
    .owe = owe_nothing, .deliver = deliver, .complete = complete, .fail = fail};

/* ---- Channels --------------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t number, uint32_t member) {
    return number ^ (member + UINT64_C(1)) * SPREAD;
}

static void connect_channel(gcoll_channel *channel) {
    const gcoll_session *session = channel->session;
    const gcoll_net *net = session->net;
    gcoll_flow_set_lane(&channel->flow, &lane, net->eager_bytes, net->pool_bytes);
    gcoll_flow_connect(&channel->flow, session->peer_eager, session->peer_pool);
}

void gcoll_channels_connect(gcoll_session *session) {
    for (gcoll_channel *channel = session->channels; channel; channel = channel->next)
        if (channel->state == GCOLL_CHANNEL_OPEN)
            connect_channel(channel);
}

/* The rest of a frame that the kernel has taken in part is copied, as its memory is the caller's again. */
static void free_cut(gcoll_session *session) {
    session->output.cut.message = NULL;
    if (gcoll_session_keep_cut(session))
        return;
    session->output.cut.payload_bytes = 0; /* and nothing is written any more */
    session->output.dead = true;
    gcoll_session_fail(session, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", session->rank);
}

/* Forgets what the connection has to do with messages of the channel. */
static void drop_moving(gcoll_channel *channel) {
    gcoll_session *session = channel->session;
    const gcoll_message *cut = session->output.cut.message;
    gcoll_message_queue_drop(&session->output.messages, channel);
    gcoll_message_queue_drop(&session->output.sealed, channel);
    if (cut && cut->channel == channel)
        free_cut(session);
    if (session->input.flow == &channel->flow) {
        session->input.flow = &session->flow;
        session->input.slot = NULL;
    }
}

/* Forgets all messages. No memory of theirs is touched afterwards, and no `done` follows. */
static void drop_channel(gcoll_channel *channel) {
    gcoll_session *session = channel->session;
    gcoll_flow_drop(&channel->flow);
    gcoll_message_queue_drop(&session->net->completed, channel);
    drop_moving(channel);
    session->posted -= channel->posted;
    channel->posted = 0;
    channel->ping = channel->pong = channel->credit = false;
}

static void end_fault(gcoll_channel *channel) {
    gcoll_channel **at = &channel->branch->net->faults;
    if (channel->fault == GCOLL_OK)
        return;
    while (*at && *at != channel)
        at = &(*at)->next_fault;
    if (*at)
        *at = channel->next_fault;
    free(channel->fault_text);
    channel->fault_text = NULL;
    channel->fault = GCOLL_OK;
}

static void end_channel(gcoll_channel *channel) {
    gcoll_session *session = channel->session;
    gcoll_channel **at = &session->speaking;
    drop_channel(channel);
    end_fault(channel);
    *channel->link = channel->next;
    if (channel->next)
        channel->next->link = channel->link;
    while (*at && *at != channel)
        at = &(*at)->next_speaking;
    if (*at)
        *at = channel->next_speaking;
    gcoll_map_remove(&session->net->channel_map, &channel->item);
    channel->branch->channels[channel->rank] = NULL;
    free(channel);
}

static gcoll_channel *make_channel(gcoll_branch *branch, uint32_t rank, gcoll_session *session) {
    gcoll_net *net = branch->net;
    gcoll_channel *channel = calloc(1, sizeof *channel);
    if (!channel ||
        !gcoll_map_add(&net->channel_map, &channel->item, hash_of(branch->number, session->rank))) {
        free(channel);
        return NULL;
    }
    channel->branch = branch;
    channel->session = session;
    channel->rank = rank;
    gcoll_flow_init(&channel->flow, &lane_before, rank, net->eager_bytes, net->pool_bytes);
    channel->next = session->channels;
    channel->link = &session->channels;
    if (channel->next)
        channel->next->link = &channel->next;
    session->channels = channel;
    branch->channels[rank] = channel;
    if (session->state == GCOLL_SESSION_CONNECTED && session->lane.stands)
        connect_channel(channel);
    return channel;
}

/* The channel to a rank; NULL: the message is dropped, as the branch is leaving or memory ran out. */
static gcoll_channel *reach(gcoll_branch *branch, uint32_t rank) {
    if (branch->leaving || branch->net->leaving || rank >= branch->size || rank == branch->rank)
        return NULL;
    if (branch->channels[rank])
        return branch->channels[rank];
    gcoll_session *session = gcoll_session_of(branch->net, branch->members[rank]);
    gcoll_channel *channel = session ? make_channel(branch, rank, session) : NULL;
    if (!channel)
        gcoll_net_problem(branch->net, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", rank);
    return channel;
}

static gcoll_branch *find_branch(const gcoll_net *net, uint64_t number) {
    gcoll_map_item *item = gcoll_map_first(&net->branch_map, number);
    return item ? (gcoll_branch *)(void *)((char *)item - offsetof(gcoll_branch, item)) : NULL;
}

gcoll_channel *gcoll_channel_find(gcoll_session *session, uint64_t number) {
    const gcoll_net *net = session->net;
    gcoll_map_item *item = gcoll_map_first(&net->channel_map, hash_of(number, session->rank));
    for (; item; item = gcoll_map_next(item)) {
        gcoll_channel *channel = (gcoll_channel *)(void *)((char *)item - offsetof(gcoll_channel, item));
        if (channel->session == session && channel->branch->number == number)
            return channel;
    }
    gcoll_branch *branch = find_branch(net, number);
    const uint32_t rank = branch ? rank_of(branch, session->rank) : UINT32_MAX;
    return rank != UINT32_MAX ? reach(branch, rank) : NULL;
}

/* ---- Failures and departures ------------------------------------------------------------------------ */

void gcoll_branches_report(gcoll_net *net) {
    while (net->faults) {
        gcoll_channel *channel = net->faults;
        const gcoll_branch *branch = channel->branch;
        char text[GCOLL_SESSION_VERDICT_TEXT];
        const gcoll_status status = channel->fault;
        snprintf(text, sizeof text, "%s", channel->fault_text ? channel->fault_text : "failed");
        end_fault(channel);
        drop_channel(channel);
        net->moved = true;
        if (!branch->leaving && branch->events.failed)
            branch->events.failed(branch->events.arg, channel->rank, status, text);
    }
}

/* The peer was told when this rank left, unless they had not met then: it learns so when it asks. A member of
 * a group asks only when all members have opened their endpoints. */
void gcoll_branch_on_strange_ping(gcoll_session *session, uint64_t number) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_GOODBYE};
    if (session->net->leaving || find_branch(session->net, number) ||
        gcoll_bytes_left(&session->output.control) >= GCOLL_SESSION_CONTROL_STEP)
        return;
    gcoll_wire_put_header(bytes, &header);
    gcoll_session_append_grouped(session, number, bytes, sizeof bytes);
}

void gcoll_channel_aborted(gcoll_channel *channel, const gcoll_note *note) {
    gcoll_branch *branch = channel->branch;
    if (channel->told)
        return; /* only the first abort counts */
    channel->told = true;
    branch->net->moved = true;
    if (branch->events.aborted)
        branch->events.aborted(branch->events.arg, channel->rank, note);
}

static void depart(gcoll_channel *channel) {
    drop_moving(channel);
    gcoll_flow_depart(&channel->flow);
    channel->flow.lane = &lane_afterwards;
    channel->session->posted -= channel->posted; /* all are dropped */
    channel->posted = 0;
    channel->state = GCOLL_CHANNEL_DEPARTED;
}

void gcoll_channel_departed(gcoll_channel *channel) {
    const gcoll_branch *branch = channel->branch;
    depart(channel);
    branch->net->moved = true;
    if (branch->events.departed)
        branch->events.departed(branch->events.arg, channel->rank);
}

static void announce(gcoll_branch *branch, uint32_t rank, const gcoll_session *session, bool is_told) {
    gcoll_channel *channel = branch->channels[rank];
    const gcoll_events *events = &branch->events;
    if (channel && channel->state != GCOLL_CHANNEL_OPEN)
        return;
    if (channel && session->verdict == GCOLL_OK) {
        depart(channel);
    } else if (channel) {
        drop_channel(channel);
        channel->state = GCOLL_CHANNEL_FAILED;
    }
    if (is_told)
        return;
    branch->net->moved = true;
    if (session->verdict == GCOLL_OK && events->departed)
        events->departed(events->arg, rank);
    else if (session->verdict != GCOLL_OK && session->changed && events->changed)
        events->changed(events->arg, rank, session->verdict_text);
    else if (session->verdict != GCOLL_OK && events->failed)
        events->failed(events->arg, rank, session->verdict, session->verdict_text);
}

void gcoll_branches_announce(gcoll_session *session, bool is_told) {
    for (gcoll_branch *branch = session->net->branches; branch; branch = branch->next) {
        const uint32_t rank = branch->leaving ? UINT32_MAX : rank_of(branch, session->rank);
        if (rank != UINT32_MAX)
            announce(branch, rank, session, is_told);
    }
}

/* Tells a branch that a trunk broke. from: the branch's rank that says so. */
static void tell_broken(gcoll_branch *branch, uint32_t from, const gcoll_note *note) {
    gcoll_note own = *note;
    own.culprit = note->culprit != UINT32_MAX ? rank_of(branch, note->culprit) : UINT32_MAX;
    own.passed_on = true; /* ranks in the text are those of the trunk */
    snprintf(own.text, sizeof own.text, "the context whose connections this one shares broke: %.*s",
             (int)sizeof own.text - 64, note->text);
    branch->net->moved = true;
    if (branch->events.aborted)
        branch->events.aborted(branch->events.arg, from, &own);
}

/* While our own trunk is in use, it is about to break for the same cause, and with it all branches. */
void gcoll_branches_aborted(gcoll_net *net, const gcoll_session *from, const gcoll_note *note) {
    for (gcoll_branch *branch = net->branches; branch; branch = branch->next) {
        const uint32_t rank = rank_of(branch, from->rank);
        if (!branch->leaving && (rank != UINT32_MAX || !net->is_gone))
            tell_broken(branch, rank != UINT32_MAX ? rank : branch->rank, note);
    }
}

void gcoll_branches_break(gcoll_net *net, const gcoll_note *note) {
    for (gcoll_branch *branch = net->branches; branch; branch = branch->next) {
        if (branch->leaving)
            continue;
        for (uint32_t rank = 0; rank < branch->size; rank++)
            if (branch->channels[rank])
                drop_channel(branch->channels[rank]);
        branch->leaving = true;
        tell_broken(branch, branch->rank, note);
    }
}

void gcoll_branches_witnessed(gcoll_net *net, uint32_t by, uint32_t about, int64_t ago_ms) {
    for (gcoll_branch *branch = net->branches; branch; branch = branch->next) {
        if (branch->voice.doubt != about)
            continue; /* nor does it look for the ranks, which takes time */
        const uint32_t teller = rank_of(branch, by), rank = rank_of(branch, about);
        if (!branch->leaving && teller != UINT32_MAX && rank != UINT32_MAX && branch->events.witnessed)
            branch->events.witnessed(branch->events.arg, teller, rank, ago_ms);
    }
}

/* Forgets the endpoint's own messages on this session, and none of its branches'. */
static void drop_own(gcoll_session *session) {
    gcoll_session_output *out = &session->output;
    gcoll_message_queue_drop(&out->messages, NULL);
    gcoll_message_queue_drop(&out->sealed, NULL);
    if (session->input.flow == &session->flow)
        session->input.slot = NULL;
    if (out->cut.message && !out->cut.message->channel)
        free_cut(session);
    session->posted = 0;
    for (const gcoll_channel *channel = session->channels; channel; channel = channel->next)
        session->posted += channel->posted;
}

/* By connections beside the session's own, what it sent before may come later than its word: then it goes
 * when that is there. What was to be read by them is over, however they end from now on. */
void gcoll_session_gone(gcoll_session *session) {
    gcoll_net *net = session->net;
    if (session->is_gone || net->leaving)
        return;
    gcoll_session_catch_up(session);
    if (session->state != GCOLL_SESSION_CONNECTED)
        return;
    session->goes = !net->is_gone && gcoll_session_awaits_rest(session);
    if (session->goes)
        return;
    if (session->lane.stands)
        gcoll_session_end_doubt(session);
    gcoll_net_report_completed(net);
    session->is_gone = true;
    gcoll_session_drop_lane(session);
    gcoll_flow_depart(&session->flow);
    session->flow.is_connected = false; /* nothing is sent any more */
    drop_own(session);
    net->moved = true;
    if (net->events.departed)
        net->events.departed(net->events.arg, session->rank);
}

static void say_gone(gcoll_session *session) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_GOODBYE};
    gcoll_wire_put_header(bytes, &header);
    gcoll_session_append_grouped(session, 0, bytes, sizeof bytes);
}

void gcoll_branches_connected(gcoll_session *session) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
    if (session->net->is_gone)
        say_gone(session);
    for (const gcoll_branch *branch = session->net->branches; branch; branch = branch->next)
        if (branch->note && rank_of(branch, session->rank) != UINT32_MAX)
            gcoll_session_append_grouped(session, branch->number, bytes,
                                         gcoll_wire_put_note(bytes, branch->note));
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

static gcoll_status check(const gcoll_net *net, const gcoll_endpoint_options *options) {
    for (uint32_t rank = 0; rank < options->size; rank++)
        if (options->members[rank] >= net->size)
            return gcoll_error(GCOLL_ERR_INVALID, "members[%u]: is %u; allowed are 0 to %u", rank,
                               options->members[rank], net->size - 1);
    if (options->rank >= options->size || options->members[options->rank] != net->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "rank: %u of %u is not this rank of the trunk", options->rank,
                           options->size);
    if (net->leaving)
        return gcoll_error(GCOLL_ERR_STATE, "the context whose connections are to be shared is broken");
    return GCOLL_OK;
}

static void list_branch(gcoll_net *net, gcoll_branch *branch) {
    branch->next = net->branches;
    branch->link = &net->branches;
    if (branch->next)
        branch->next->link = &branch->next;
    net->branches = branch;
}

static void free_branch(gcoll_branch *branch) {
    if (branch) {
        free(branch->members);
        free(branch->channels);
        free(branch->note);
        free(branch);
    }
}

static gcoll_status open_on(gcoll_net *net, const gcoll_endpoint_options *options, const gcoll_events *events,
                            gcoll_endpoint **endpoint) {
    gcoll_status status = check(net, options);
    if (status != GCOLL_OK)
        return status;
    gcoll_branch *branch = calloc(1, sizeof *branch);
    if (branch) {
        branch->members = malloc(options->size * sizeof *branch->members);
        branch->channels = calloc(options->size, sizeof(gcoll_channel *));
        branch->number = gcoll_get_le(options->group, sizeof branch->number);
        branch->number += branch->number == 0; /* 0 is the trunk's */
    }
    if (branch && find_branch(net, branch->number)) {
        free_branch(branch);
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "the generation of a new context is that of another one of the same connections");
    }
    if (!branch || !branch->members || !branch->channels ||
        !gcoll_map_add(&net->branch_map, &branch->item, branch->number)) {
        free_branch(branch);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", options->size);
    }
    branch->net = net;
    branch->rank = options->rank;
    branch->size = options->size;
    memcpy(branch->members, options->members, options->size * sizeof *branch->members);
    branch->events = *events;
    branch->voice.news_of = branch->voice.doubt = UINT32_MAX;
    list_branch(net, branch);
    *endpoint = (gcoll_endpoint *)(void *)branch;
    return GCOLL_OK;
}

/* ---- The table -------------------------------------------------------------------------------------- */

static gcoll_status branch_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                                gcoll_endpoint **endpoint) {
    return open_on(gcoll_net_of(options->trunk), options, events, endpoint);
}

/* A branch of a branch is one of the same trunk. */
static gcoll_status twig_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                              gcoll_endpoint **endpoint) {
    const gcoll_branch *from = branch_of(options->trunk);
    gcoll_endpoint_options own = *options;
    uint32_t *members = calloc(options->size, sizeof *members);
    if (!members)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", options->size);
    for (uint32_t rank = 0; rank < options->size; rank++)
        members[rank] =
            options->members[rank] < from->size ? from->members[options->members[rank]] : UINT32_MAX;
    own.members = members;
    const gcoll_status status = open_on(from->net, &own, events, endpoint);
    free(members);
    return status;
}

static gcoll_status branch_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    const size_t begin = sizeof GCOLL_SHARED_ADDRESS - 1;
    if (bytes <= begin)
        return gcoll_error(GCOLL_ERR_INVALID, "address: %zu bytes are too few", bytes);
    memcpy(text, GCOLL_SHARED_ADDRESS, begin);
    return gcoll_address_format(&branch_of(endpoint)->net->address, text + begin, bytes - begin);
}

/* A session that is over already would tell nobody of it again. */
static void find_fault(gcoll_channel *channel) {
    const gcoll_session *session = channel->session;
    if (channel->state != GCOLL_CHANNEL_OPEN || session->in_verdicts)
        return;
    if (session->state == GCOLL_SESSION_DEPARTED)
        fault(channel, GCOLL_ERR_PEER, "left the job");
    else if (session->state == GCOLL_SESSION_FAILED)
        fault(channel, session->verdict, session->verdict_text);
}

static gcoll_status branch_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    gcoll_branch *branch = branch_of(endpoint);
    if (peer >= branch->size || peer == branch->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "connect: rank %u; allowed are 0 to %u without %u", peer,
                           branch->size - 1, branch->rank);
    if (strncmp(address, GCOLL_SHARED_ADDRESS, sizeof GCOLL_SHARED_ADDRESS - 1) != 0)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.share: is 1 on rank %u and 0 on rank %u; allowed is one value for all ranks",
            branch->rank, peer);
    if (branch->leaving)
        return GCOLL_OK;
    const gcoll_status status =
        gcoll_net_connect((gcoll_endpoint *)(void *)branch->net, branch->members[peer],
                          address + sizeof GCOLL_SHARED_ADDRESS - 1);
    gcoll_channel *channel = status == GCOLL_OK ? reach(branch, peer) : NULL;
    if (channel)
        find_fault(channel);
    return status;
}

static void branch_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_channel *channel = reach(branch_of(endpoint), peer);
    if (!channel || channel->state != GCOLL_CHANNEL_OPEN)
        return;
    message->channel = channel;
    gcoll_flow_post_send(&channel->flow, message);
}

static void branch_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_channel *channel = reach(branch_of(endpoint), peer);
    if (!channel || channel->state == GCOLL_CHANNEL_FAILED)
        return;
    const uint32_t one = !message->background;
    message->channel = channel;
    channel->posted += one;
    channel->session->posted += one;
    if (!gcoll_flow_post_recv(&channel->flow, message, channel->state == GCOLL_CHANNEL_DEPARTED)) {
        channel->posted -= one;
        channel->session->posted -= one;
    } else if (channel->session->posted > 0) {
        gcoll_session_make_hot(channel->session);
    }
}

static gcoll_endpoint *trunk_of(const gcoll_endpoint *endpoint) {
    return (gcoll_endpoint *)(void *)((const gcoll_branch *)(const void *)endpoint)->net;
}

static void branch_flush(gcoll_endpoint *endpoint) {
    gcoll_net_flush(trunk_of(endpoint));
}

static gcoll_status branch_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    return gcoll_net_progress(trunk_of(endpoint), wait_us, moved);
}

static bool branch_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                        uint64_t *bytes) {
    const gcoll_branch *branch = branch_of(endpoint);
    const gcoll_channel *channel = branch->channels[peer];
    const bool is_here = channel && gcoll_flow_peek(&channel->flow, stream, index, bytes);
    if (!is_here)
        branch->net->curious = true;
    return is_here;
}

static bool branch_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    const gcoll_branch *branch = branch_of(endpoint);
    gcoll_channel *channel = branch->channels[peer];
    gcoll_slot *slot = channel ? gcoll_flow_posted(&channel->flow, message) : NULL;
    if (!slot) /* done, or dropped when the peer left */
        return !gcoll_message_is_queued(&branch->net->completed, message);
    if (!gcoll_flow_take_back(&channel->flow, slot))
        return false;
    channel->posted -= !message->background;
    channel->session->posted -= !message->background;
    return true;
}

static void branch_wake(gcoll_endpoint *endpoint) {
    gcoll_net_wake(trunk_of(endpoint));
}

static void branch_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_channel *channel = reach(branch_of(endpoint), peer);
    if (channel && channel->state == GCOLL_CHANNEL_OPEN &&
        channel->session->state == GCOLL_SESSION_CONNECTED) {
        channel->ping = true;
        gcoll_channel_speak(channel);
    }
}

static void branch_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    branch_of(endpoint)->voice.position = position;
}

static void branch_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                               const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_net_voice_concern(&branch_of(endpoint)->voice, stream, fingerprint);
}

/* That of the trunk counts. */
static void branch_set_spin(gcoll_endpoint *endpoint, int64_t spin_us) {
    (void)endpoint;
    (void)spin_us;
}

static uint32_t branch_moves(gcoll_endpoint *endpoint) {
    gcoll_branch *branch = branch_of(endpoint);
    for (uint32_t rank = 0; rank < branch->size; rank++) {
        gcoll_channel *channel = branch->channels[rank];
        if (!channel || channel->session->state != GCOLL_SESSION_CONNECTED)
            continue;
        const uint64_t now = gcoll_session_taken(channel->session, channel->data_end, channel->taken);
        branch->moves += now != channel->taken;
        channel->taken = now;
        const gcoll_session *session = channel->session;
        if (session->input.flow == &channel->flow && session->input.remaining > 0) { /* it comes in parts */
            branch->moves += session->heard != channel->heard;
            channel->heard = session->heard;
        }
    }
    return branch->moves;
}

static void branch_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight) {
    gcoll_net_look(trunk_of(endpoint), branch_of(endpoint)->members[peer], sight);
}

static void branch_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves) {
    branch_of(endpoint)->voice.news_of = rank;
    branch_of(endpoint)->voice.news = moves;
}

static void branch_look_soon(gcoll_endpoint *endpoint, int64_t lasted_ms) {
    const gcoll_branch *branch = branch_of(endpoint);
    gcoll_net_look_in_time(branch->net);
    if (branch->leaving || !gcoll_net_is_time_to_tell(branch->net, lasted_ms))
        return;
    for (uint32_t rank = 0; rank < branch->size; rank++) {
        gcoll_channel *channel = branch->channels[rank];
        if (!channel || channel->state != GCOLL_CHANNEL_OPEN ||
            channel->session->state != GCOLL_SESSION_CONNECTED)
            continue;
        channel->pong = true;
        gcoll_channel_speak(channel);
        gcoll_session_want_output(channel->session);
    }
}

static void branch_set_doubt(gcoll_endpoint *endpoint, uint32_t rank) {
    gcoll_branch *branch = branch_of(endpoint);
    branch->voice.doubt = rank < branch->size ? branch->members[rank] : UINT32_MAX;
}

/* Whatever lane the trunk's own messages take. */
static void branch_explain(gcoll_endpoint *endpoint, uint32_t peer, char *text, size_t bytes) {
    const gcoll_branch *branch = branch_of(endpoint);
    const gcoll_session *session = gcoll_net_session(branch->net, branch->members[peer]);
    if (session && session->lane.stands)
        snprintf(text, bytes, "tcp, by a connection that is shared");
    else
        gcoll_net_explain(trunk_of(endpoint), branch->members[peer], text, bytes);
}

/* Those of all endpoints that share the connections: one thread waits for all. */
static void branch_count(gcoll_endpoint *endpoint, gcoll_endpoint_counts *counts) {
    gcoll_net_count(trunk_of(endpoint), counts);
}

static void branch_count_peer(gcoll_endpoint *endpoint, uint32_t peer, gcoll_peer_counts *counts) {
    const gcoll_branch *branch = branch_of(endpoint);
    gcoll_net_count_peer(trunk_of(endpoint), branch->members[peer], counts);
    counts->lane = counts->lane ? "tcp" : NULL; /* whatever lane the trunk's own messages take */
}

/* ---- Leaving ---------------------------------------------------------------------------------------- */

static gcoll_session *member_session(const gcoll_branch *branch, uint32_t rank) {
    gcoll_session *session = branch->net->sessions[branch->members[rank]];
    return session && session->state == GCOLL_SESSION_CONNECTED ? session : NULL;
}

/* Whether control frames wait for room. */
static bool waits_for_room(const gcoll_session *session) {
    return session && session->state == GCOLL_SESSION_CONNECTED && !session->told && !session->output.dead &&
           (gcoll_bytes_left(&session->output.control) > 0 || gcoll_socket_unsent(session->socket) > 0);
}

/* Of members, or of all ranks if branch is NULL. */
static bool has_unsaid(const gcoll_net *net, const gcoll_branch *branch) {
    const uint32_t size = branch ? branch->size : net->size;
    for (uint32_t rank = 0; rank < size; rank++)
        if (waits_for_room(net->sessions[branch ? branch->members[rank] : rank]))
            return true;
    return false;
}

static void drain(gcoll_net *net, const gcoll_branch *branch, int64_t until_ms) {
    gcoll_net_flush_all(net);
    while (has_unsaid(net, branch) && gcoll_now_ms() < until_ms) {
        gcoll_net_block(net, WAIT_STEP_US);
        gcoll_net_flush_all(net);
    }
}

/* Says a frame to all members that are connected, and waits up to limit_ms until the kernel has taken it. */
static void say_to_all(gcoll_branch *branch, const uint8_t *bytes, size_t count, int64_t limit_ms) {
    const int64_t until_ms = gcoll_now_ms() + gcoll_net_bounded(limit_ms);
    for (uint32_t rank = 0; rank < branch->size; rank++) {
        gcoll_session *session = member_session(branch, rank);
        const gcoll_channel *channel = branch->channels[rank];
        if (session && rank != branch->rank &&
            !(channel && (channel->told || channel->state == GCOLL_CHANNEL_DEPARTED)))
            gcoll_session_append_grouped(session, branch->number, bytes, count);
    }
    drain(branch->net, branch, until_ms);
}

static void branch_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    gcoll_branch *branch = branch_of(endpoint);
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
    if (branch->leaving)
        return;
    branch->leaving = true;
    for (uint32_t rank = 0; rank < branch->size; rank++)
        if (branch->channels[rank]) {
            end_fault(branch->channels[rank]);
            drop_channel(branch->channels[rank]);
        }
    branch->note = malloc(sizeof *branch->note);
    if (branch->note)
        *branch->note = *note;
    say_to_all(branch, bytes, gcoll_wire_put_note(bytes, note), limit_ms);
}

static void end_branch(gcoll_branch *branch) {
    gcoll_net *net = branch->net;
    for (uint32_t rank = 0; rank < branch->size; rank++)
        if (branch->channels[rank])
            end_channel(branch->channels[rank]);
    *branch->link = branch->next;
    if (branch->next)
        branch->next->link = branch->link;
    gcoll_map_remove(&net->branch_map, &branch->item);
    free_branch(branch);
    if (!net->branches) {
        gcoll_map_free(&net->branch_map);
        gcoll_map_free(&net->channel_map);
    }
}

static void branch_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    gcoll_branch *branch = branch_of(endpoint);
    if (!endpoint)
        return;
    gcoll_net *net = branch->net;
    const int64_t until_ms = gcoll_now_ms() + gcoll_net_bounded(limit_ms);
    if (!branch->leaving && !net->leaving) {
        uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
        branch->leaving = true; /* what comes of it while the goodbye waits is thrown away */
        const gcoll_wire_header header = {.kind = GCOLL_WIRE_GOODBYE};
        gcoll_wire_put_header(bytes, &header);
        for (uint32_t rank = 0; rank < branch->size; rank++)
            if (branch->channels[rank])
                drop_channel(branch->channels[rank]);
        branch->events = (gcoll_events){0};
        say_to_all(branch, bytes, sizeof bytes, limit_ms < GOODBYE_MS ? limit_ms : GOODBYE_MS);
    }
    end_branch(branch);
    const int64_t left_ms = until_ms - gcoll_now_ms();
    if (net->is_gone && !net->branches)
        gcoll_net_end(net, left_ms > 0 ? left_ms : 0);
}

/* In a forked child, which may have no copy of the payload, and in which nothing is written. */
static void forget_cuts(gcoll_net *net) {
    for (uint32_t rank = 0; rank < net->size; rank++)
        if (net->sessions[rank]) {
            net->sessions[rank]->output.cut.message = NULL;
            net->sessions[rank]->output.cut.payload_bytes = 0;
        }
}

/* In a forked child. */
static void branch_abandon(gcoll_endpoint *endpoint) {
    gcoll_branch *branch = branch_of(endpoint);
    gcoll_net *net = branch->net;
    forget_cuts(net);
    end_branch(branch);
    if (net->is_gone && !net->branches)
        gcoll_net_abandon((gcoll_endpoint *)(void *)net);
}

/* Ends what a lane has beside the session's own connection, as groups do not use it, when the peer's kernel
 * has our word. False: later. If its end came before our word, this rank would seem to have failed. */
static bool finish_lane(gcoll_session *session) {
    const gcoll_net_lane *taken = session && session->lane.stands ? session->lane.taken : NULL;
    if (!taken || !taken->lane->finish || session->lane.finished || session->state != GCOLL_SESSION_CONNECTED)
        return true;
    const uint64_t said = session->output.written;
    if (gcoll_bytes_left(&session->output.control) > 0 || gcoll_session_taken(session, said, 0) < said)
        return false;
    session->lane.finished = true;
    taken->lane->finish(session);
    return true;
}

static void finish_lanes(gcoll_net *net, int64_t until_ms) {
    for (bool waits = true; waits;) {
        waits = false;
        for (uint32_t rank = 0; rank < net->size; rank++)
            waits = !finish_lane(net->sessions[rank]) || waits;
        if (waits && gcoll_now_ms() >= until_ms)
            return; /* a peer that misses a part of a message then waits for it for some time */
        if (waits)
            gcoll_net_block(net, WAIT_STEP_US);
    }
}

void gcoll_net_forget_own(gcoll_net *net) {
    net->events = (gcoll_events){0};
    gcoll_message_queue_drop(&net->completed, NULL);
    forget_cuts(net);
    for (uint32_t rank = 0; rank < net->size; rank++)
        if (net->sessions[rank]) {
            gcoll_session_drop_lane(net->sessions[rank]);
            gcoll_flow_drop(&net->sessions[rank]->flow);
            drop_own(net->sessions[rank]);
        }
}

void gcoll_net_live_on(gcoll_net *net, int64_t limit_ms) {
    const int64_t until_ms = gcoll_now_ms() + gcoll_net_bounded(limit_ms);
    net->events = (gcoll_events){0};
    net->is_gone = net->discards = true;
    gcoll_message_queue_drop(&net->completed, NULL);
    if (net->leaving)
        return;
    for (uint32_t rank = 0; rank < net->size; rank++) {
        gcoll_session *session = net->sessions[rank];
        if (!session)
            continue;
        gcoll_session_drop_lane(session);
        gcoll_flow_drop(&session->flow);
        drop_own(session);
        if (session->state == GCOLL_SESSION_CONNECTED)
            say_gone(session);
    }
    drain(net, NULL, until_ms);
    finish_lanes(net, gcoll_now_ms() + GOODBYE_MS);
}

#define OPERATIONS                                                                                           \
    .yields = true, .address = branch_address, .connect = branch_connect, .post_send = branch_post_send,     \
    .post_recv = branch_post_recv, .flush = branch_flush, .progress = branch_progress, .peek = branch_peek,  \
    .wake = branch_wake, .probe = branch_probe, .set_position = branch_set_position,                         \
    .set_concern = branch_set_concern, .set_spin = branch_set_spin, .abort = branch_abort,                   \
    .close = branch_close, .moves = branch_moves, .look = branch_look, .set_news = branch_set_news,          \
    .set_doubt = branch_set_doubt, .look_soon = branch_look_soon, .take_back = branch_take_back,             \
    .abandon = branch_abandon, .explain = branch_explain, .count = branch_count,                             \
    .count_peer = branch_count_peer

static const gcoll_transport twig = {.name = "tcp", .open = twig_open, OPERATIONS, .shared = &twig};
const gcoll_transport gcoll_transport_branch = {
    .name = "tcp", .open = branch_open, OPERATIONS, .shared = &twig};
