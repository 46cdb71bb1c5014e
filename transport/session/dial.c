/*
 * transport/session/dial.c - connects to a peer.
 *
 * The peer's addresses are tried in turn, each for its share of the time that is left. The kernel accepts
 * connections for a peer that is busy computing; the peer answers when it next drives its endpoint. But
 * another program may listen at the address, and never answer. So a connection without an answer in its share
 * is kept, and the next address is tried; the first connection with an answer is used. A connection that is
 * closed before the answer, because too many connected to the peer at once, is tried again within its share.
 *
 * An endpoint that connects on (options.connects_on) begins again with the first address when none is left,
 * unless all have refused. Its tries without an answer of the kernel are short at first, and each round
 * doubles them: so one address that swallows packets does not keep it from another.
 *
 * libuv runs timers before it polls. After a long computation of the caller, a timer may expire although the
 * answer has long arrived. So an expired timer polls once more before it counts.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/session/connect.h"
#include "transport/session/session.h"

/* By gcoll_address_tls. */
static const char *const tls_words[] = {"'off' or 'auth'", "'on' by the secret", "'on' by certificates"};

/* Least time for one address. */
#define SHARE_MIN_MS 250
/* Tries after a connection that closed without an answer: 5, 10, ... 640, 640 ms apart. */
#define RETRY_FIRST_MS 5
#define RETRY_DOUBLES  7
/* The longest time of the first round for an address whose kernel does not answer, if the endpoint connects
 * on. */
#define SILENT_MS      INT64_C(500)
#define SILENT_DOUBLES 6
/* Long enough for one poll between two timers. */
#define LOOK_AGAIN_MS 1
/* A peer that challenges is there, and gets the whole time again: so often, in case that it never answers. */
#define HEARD_MAX 8
/* Least room for the text of one more address's problem. */
#define LEAST_PROBLEM_BYTES 80

/* One connection attempt. Lives until libuv has closed its handle, which may be after its dial ended. */
typedef struct attempt {
    uv_tcp_t handle;
    uv_connect_t request;
    gcoll_dial *dial; /* NULL once given up */
    gcoll_descriptor descriptor;
} attempt;

struct gcoll_dial {
    uv_timer_t timer;
    gcoll_session *session; /* NULL once ended */
    gcoll_address peer;
    uint32_t order[GCOLL_ADDRESS_HOSTS];
    uint32_t count, next;
    uint32_t retries;
    uint32_t heard; /* challenges */
    int64_t until_ms, share_until_ms;
    bool looked_again;
    bool is_silent; /* an address of this round has neither answered nor refused */
    uint32_t rounds;
    attempt *attempt;  /* connecting */
    gcoll_link *link;  /* has greeted */
    gcoll_link *mutes; /* greeted, and got no answer within their share */
    char where[GCOLL_ADDRESS_NAME_MAX];
    char problem[GCOLL_SESSION_VERDICT_TEXT]; /* the addresses' problems; the latest begins at `kept` */
    size_t kept;
    uint32_t noted; /* the address of the latest problem */
};

static void try_next(gcoll_dial *dial);
static void on_share_over(uv_timer_t *timer);

static void on_attempt_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void give_up_attempt(gcoll_dial *dial) {
    if (dial->attempt) {
        dial->attempt->dial = NULL;
        gcoll_fork_hold();
        gcoll_descriptor_leave(&dial->attempt->descriptor);
        uv_close((uv_handle_t *)&dial->attempt->handle, on_attempt_closed);
        gcoll_fork_release();
        dial->attempt = NULL;
    }
}

static void on_timer_closed(uv_handle_t *timer) {
    free(timer->data);
}

void gcoll_dial_end(gcoll_session *session) {
    gcoll_dial *dial = session->dial;
    if (!dial)
        return;
    session->dial = NULL;
    dial->session = NULL;
    give_up_attempt(dial);
    gcoll_link_drop(dial->link);
    dial->link = NULL;
    while (dial->mutes) {
        gcoll_link *mute = dial->mutes;
        dial->mutes = mute->next;
        gcoll_link_drop(mute);
    }
    uv_close((uv_handle_t *)&dial->timer, on_timer_closed);
}

bool gcoll_dial_has_proved(const gcoll_dial *dial) {
    const gcoll_link *mute = dial->mutes;
    while (mute && !mute->proof.is_proved)
        mute = mute->next;
    return mute || (dial->link && dial->link->proof.is_proved);
}

void gcoll_dial_look(gcoll_dial *dial) {
    gcoll_link *next;
    for (gcoll_link *mute = dial->mutes; mute && dial->session; mute = next) {
        next = mute->next;
        gcoll_link_ready(mute);
    }
    if (dial->session && dial->link)
        gcoll_link_ready(dial->link);
}

static void start_timer(gcoll_dial *dial, uv_timer_cb callback, int64_t ms) {
    dial->looked_again = false;
    uv_update_time(dial->timer.loop);
    uv_timer_start(&dial->timer, callback, ms > 0 ? (uint64_t)ms : 0, 0);
}

static int64_t left_ms(const gcoll_dial *dial) {
    return dial->until_ms - gcoll_now_ms();
}

/* Fails the session, unless a connection that the peer made is in reserve: then that one is used. */
static void give_up(gcoll_dial *dial, gcoll_status status) {
    gcoll_session *session = dial->session;
    if (gcoll_session_adopt_reserve(session))
        return;
    gcoll_session_fail(session, status, "%s", dial->problem);
    gcoll_dial_end(session);
}

/* Notes the latest problem of the current address. If the text is too short for all addresses, it keeps the
 * first ones and the last. */
GCOLL_PRINTF(2, 3) static void note_problem(gcoll_dial *dial, const char *format, ...) {
    const uint32_t address = dial->next < dial->count ? dial->next : dial->count - 1;
    const size_t used = strlen(dial->problem);
    if (address < dial->noted)
        dial->kept = 0; /* a new round through all addresses */
    else if (address > dial->noted && used > 0 && used + LEAST_PROBLEM_BYTES < sizeof dial->problem)
        dial->kept = used + (size_t)snprintf(dial->problem + used, sizeof dial->problem - used, "; ");
    dial->noted = address;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(dial->problem + dial->kept, sizeof dial->problem - dial->kept, format, arguments);
    va_end(arguments);
}

/* One of `parts` shares of the time that is left, but at least a minimum. */
static int64_t share_ms(const gcoll_dial *dial, uint32_t parts) {
    int64_t left = left_ms(dial);
    int64_t share = left / parts;
    if (share < SHARE_MIN_MS)
        share = left > 0 && left < SHARE_MIN_MS ? left : SHARE_MIN_MS;
    return share;
}

/* Starts the share of the next address. */
static void begin_share(gcoll_dial *dial) {
    uint32_t candidates = dial->count - dial->next;
    int64_t share = share_ms(dial, candidates > 0 ? candidates : 1);
    if (dial->session->net->connects_on && share > SILENT_MS << dial->rounds)
        share = SILENT_MS << dial->rounds;
    dial->retries = 0;
    dial->share_until_ms = gcoll_now_ms() + share;
}

static int64_t time_limit(const gcoll_net *net) {
    return gcoll_now_ms() + net->connect_timeout_ms;
}

static void go_on(gcoll_dial *dial) {
    if (dial->next < dial->count)
        dial->next++;
    begin_share(dial);
    try_next(dial);
}

/* Whether an expired timer must wait: an answer arrived, or nothing was polled since it expired. */
static bool looks_again(gcoll_dial *dial) {
    if (!dial->looked_again) {
        start_timer(dial, on_share_over, LOOK_AGAIN_MS);
        dial->looked_again = true;
        return true;
    }
    gcoll_dial_look(dial);
    return !dial->session || !dial->looked_again; /* the dial went on, with a timer of its own */
}

static void on_share_over(uv_timer_t *timer) {
    gcoll_dial *dial = timer->data;
    if (looks_again(dial))
        return;
    if (left_ms(dial) <= 0 && dial->session->net->connects_on)
        dial->until_ms = time_limit(dial->session->net);
    if (left_ms(dial) <= 0) {
        note_problem(dial, "did not answer within %lld ms at %s",
                     (long long)dial->session->net->connect_timeout_ms, dial->where);
        give_up(dial, GCOLL_ERR_PEER);
        return;
    }
    if (gcoll_session_adopt_reserve(dial->session))
        return;
    note_problem(dial, "did not answer at %s", dial->where);
    dial->is_silent = true;
    give_up_attempt(dial);
    if (dial->link) {
        dial->link->next = dial->mutes;
        dial->mutes = dial->link;
        dial->link = NULL;
    }
    go_on(dial);
}

static void on_retry(uv_timer_t *timer) {
    try_next(timer->data);
}

/* This rank is out of memory or descriptors: no other address helps, and the peer is not to blame. */
static void run_short(gcoll_dial *dial, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    note_problem(dial, "cannot connect to rank %u: %s", dial->session->rank, gcoll_errno_text(-error, text));
    give_up_attempt(dial);
    give_up(dial, GCOLL_ERR_NO_MEMORY);
}

/* Gives up the current address, and tries the next. */
static void skip(gcoll_dial *dial) {
    give_up_attempt(dial);
    go_on(dial);
}

static void refused(gcoll_dial *dial, int error) {
    if (gcoll_is_shortage(-error)) {
        run_short(dial, error);
        return;
    }
    if (error == UV_ECONNREFUSED)
        note_problem(dial, "refused the connection at %s", dial->where);
    else
        note_problem(dial, "cannot be reached at %s (%s)", dial->where, uv_strerror(error));
    skip(dial);
}

static void on_connect(uv_connect_t *request, int status) {
    attempt *each = request->data;
    gcoll_dial *dial = each->dial;
    if (!dial)
        return;
    if (dial->session->state !=
        GCOLL_SESSION_DIALING) { /* the session failed for another reason, not reported yet */
        gcoll_dial_end(dial->session);
        return;
    }
    if (status != 0) {
        refused(dial, status);
        return;
    }
    errno = 0;
    gcoll_socket *socket = gcoll_socket_take(dial->session->net, &each->handle);
    int error = errno;
    if (socket)
        dial->link = gcoll_link_new(dial->session->net, socket, GCOLL_LINK_DIALER);
    if (!dial->link) {
        refused(dial, !socket && gcoll_is_shortage(error) ? -error : UV_ENOMEM);
        return;
    }
    give_up_attempt(dial);
    dial->link->session = dial->session;
    start_timer(dial, on_share_over, share_ms(dial, dial->count - dial->next + 1));
    if (!gcoll_link_greet(dial->link, dial->peer.token))
        gcoll_dial_answered(dial, dial->link, NULL, NULL);
}

/* Initialises an attempt with a socket, and registers the socket for forks. Returns 0 or a libuv error. */
static int init_attempt(gcoll_dial *dial, attempt *each, int family) {
    gcoll_fork_hold();
    int error = uv_tcp_init_ex(dial->timer.loop, &each->handle, (unsigned)family);
    uv_os_fd_t fd;
    if (error == 0 && uv_fileno((uv_handle_t *)&each->handle, &fd) == 0)
        gcoll_descriptor_enter(&each->descriptor, fd);
    gcoll_fork_release();
    return error;
}

static int start_attempt(gcoll_dial *dial, const gcoll_host_address *host) {
    attempt *each = calloc(1, sizeof *each);
    if (!each)
        return UV_ENOMEM;
    struct sockaddr_storage where;
    gcoll_host_address_at_port(host, dial->peer.port, &where);
    int error = init_attempt(dial, each, where.ss_family);
    if (error != 0) {
        free(each);
        return error;
    }
    each->handle.data = each;
    each->request.data = each;
    each->dial = dial;
    dial->attempt = each;
    uv_os_fd_t fd;
    if (dial->peer.host == dial->session->net->address.host &&
        uv_fileno((uv_handle_t *)&each->handle, &fd) == 0)
        gcoll_net_local_dial(fd);
    return uv_tcp_connect(&each->request, &each->handle, (struct sockaddr *)&where, on_connect);
}

/* Begins again with the first address. */
static void begin_round(gcoll_dial *dial) {
    dial->rounds += dial->rounds < SILENT_DOUBLES ? 1 : 0;
    dial->is_silent = false;
    dial->next = 0;
    begin_share(dial);
    start_timer(dial, on_retry, RETRY_FIRST_MS);
}

/* Tries the next address. If none is left, waits for connections without an answer; without those, the
 * session fails. */
static void try_next(gcoll_dial *dial) {
    while (dial->next < dial->count) {
        const gcoll_host_address *host = &dial->peer.hosts[dial->order[dial->next]];
        gcoll_host_address_name(host, dial->peer.port, dial->where, sizeof dial->where);
        int error = start_attempt(dial, host);
        if (error == 0) {
            start_timer(dial, on_share_over, dial->share_until_ms - gcoll_now_ms());
            return;
        }
        if (gcoll_is_shortage(-error)) {
            run_short(dial, error);
            return;
        }
        note_problem(dial, "cannot be reached at %s (%s)", dial->where, uv_strerror(error));
        give_up_attempt(dial);
        dial->next++;
        begin_share(dial);
    }
    if (dial->mutes) {
        start_timer(dial, on_share_over, share_ms(dial, 2)); /* until then, the peer may connect to us */
        return;
    }
    if (dial->is_silent && dial->session->net->connects_on)
        begin_round(dial);
    else
        give_up(dial, GCOLL_ERR_PEER);
}

/* The connection was closed before the answer: tries the address again within its share. */
static void retry(gcoll_dial *dial) {
    gcoll_session *session = dial->session;
    if (gcoll_session_adopt_reserve(session))
        return;
    if (gcoll_now_ms() >= dial->share_until_ms) {
        dial->is_silent = true; /* as a peer in a crowd is */
        skip(dial);
        return;
    }
    start_timer(dial, on_retry, (int64_t)RETRY_FIRST_MS << dial->retries);
    dial->retries += dial->retries < RETRY_DOUBLES ? 1 : 0;
}

void gcoll_dial_heard(gcoll_dial *dial) {
    if (dial->heard++ < HEARD_MAX)
        dial->until_ms = time_limit(dial->session->net);
    begin_share(dial);
    start_timer(dial, on_share_over, share_ms(dial, dial->count - dial->next + 1));
}

static void forget_mute(gcoll_dial *dial, gcoll_link *mute) {
    gcoll_link **at = &dial->mutes;
    while (*at != mute)
        at = &(*at)->next;
    *at = mute->next;
    gcoll_link_drop(mute);
}

/* A connection without an answer was closed. If it was the last, all addresses are tried again. */
static void mute_ended(gcoll_dial *dial) {
    if (!dial->mutes && dial->next == dial->count) {
        dial->next = 0;
        begin_share(dial);
        retry(dial);
    }
}

void gcoll_dial_refused(gcoll_dial *dial, gcoll_link *link, const char *problem) {
    note_problem(dial, "%s at %s", problem, dial->where);
    if (link != dial->link) {
        forget_mute(dial, link);
        mute_ended(dial);
        return;
    }
    gcoll_link_drop(link);
    dial->link = NULL;
    skip(dial);
}

void gcoll_dial_answered(gcoll_dial *dial, gcoll_link *link, const gcoll_wire_reply *reply,
                         const char *garbage) {
    if (link != dial->link) {
        forget_mute(dial, link);
        if (garbage || !reply || reply->verdict == GCOLL_WIRE_REFUSE_DUPLICATE ||
            reply->verdict == GCOLL_WIRE_REFUSE_STRANGER) {
            mute_ended(dial);
            return;
        }
    } else {
        gcoll_link_drop(link);
        dial->link = NULL;
    }
    if (garbage) {
        note_problem(dial, "sent garbage (%s) at %s", garbage, dial->where);
        skip(dial);
        return;
    }
    if (!reply) {
        note_problem(dial, "closed the connection before it answered at %s", dial->where);
        retry(dial);
        return;
    }
    switch (reply->verdict) {
    case GCOLL_WIRE_REFUSE_DUPLICATE: /* the peer uses the connection that it made to us */
        if (!gcoll_session_adopt_reserve(dial->session))
            start_timer(dial, on_share_over, left_ms(dial));
        return;
    case GCOLL_WIRE_REFUSE_STRANGER:
        note_problem(dial, "does not listen at %s, where another rank or job does%s", dial->where,
                     dial->session->net->has_secret ? ", or one with another secret" : "");
        skip(dial);
        return;
    case GCOLL_WIRE_REFUSE_VERSION:
        note_problem(dial, "speaks version %u of the protocol, and this rank version %d", reply->version,
                     GCOLL_WIRE_VERSION);
        give_up(dial, GCOLL_ERR_PROTOCOL);
        return;
    case GCOLL_WIRE_REFUSE_RANK:
        note_problem(dial, "is another rank at %s, or runs with other limits", dial->where);
        give_up(dial, GCOLL_ERR_PROTOCOL);
        return;
    default:
        note_problem(dial, "has given up on this rank");
        give_up(dial, GCOLL_ERR_PEER);
        return;
    }
}

static gcoll_status start_dial(gcoll_session *session, const gcoll_address *peer) {
    gcoll_net *net = session->net;
    const gcoll_status status = gcoll_net_start(net);
    if (status != GCOLL_OK)
        return status;
    gcoll_dial *dial = calloc(1, sizeof *dial);
    if (!dial || uv_timer_init(&net->loop, &dial->timer) != 0) {
        free(dial);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "connect: no memory for %zu bytes", sizeof *dial);
    }
    dial->timer.data = dial;
    dial->session = session;
    dial->peer = *peer;
    gcoll_address_localize(&net->address, &dial->peer);
    dial->count = gcoll_address_choose(&net->address, &dial->peer, dial->order);
    dial->until_ms = time_limit(net);
    if (dial->count == 0)
        snprintf(dial->problem, sizeof dial->problem,
                 "offers no address but loopback, and is on another host");
    session->dial = dial;
    session->state = GCOLL_SESSION_DIALING;
    begin_share(dial);
    try_next(dial);
    return GCOLL_OK;
}

gcoll_status gcoll_net_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_address record;
    if (strncmp(address, GCOLL_SHARED_ADDRESS, sizeof GCOLL_SHARED_ADDRESS - 1) == 0)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.share: is 0 on rank %u and 1 on rank %u; allowed is one value for all ranks", net->rank,
            peer);
    gcoll_status status = gcoll_address_parse(address, &record);
    if (status != GCOLL_OK)
        return status;
    if (peer >= net->size || peer == net->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "connect: rank %u; allowed are 0 to %u without %u", peer,
                           net->size - 1, net->rank);
    if (record.checksum != (net->crc != NULL))
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.checksum: is %d on rank %u and %d on rank %u; allowed is one value for all ranks",
            net->crc != NULL, net->rank, record.checksum, peer);
    if (record.secret != net->has_secret)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.secret: is %s on rank %u and %s on rank %u; allowed is the same for all ranks",
            net->has_secret ? "set" : "not set", net->rank, record.secret ? "set" : "not set", peer);
    if (record.tls != net->address.tls)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.encryption: is %s on rank %u and %s on rank %u; allowed is the same for all ranks",
            tls_words[net->address.tls], net->rank, tls_words[record.tls], peer);
    gcoll_session *session = gcoll_session_of(net, peer);
    if (!session)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "connect: no memory for a session");
    if ((net->leaving && !net->has_note) || session->state != GCOLL_SESSION_IDLE)
        return GCOLL_OK; /* after an abort, peers that connect are told of it */
    return start_dial(session, &record);
}
