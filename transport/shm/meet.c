/*
 * transport/shm/meet.c - how two ranks come to share memory.
 *
 *   lower rank                              higher rank
 *   HELLO   ------------------------------> (by the session)
 *           <------------------------------ HELLO
 *   makes memory, writes its proof
 *   MEMORY  ==============================> (by the higher rank's socket, with the descriptor)
 *   GIVEN   ------------------------------> finds it in its socket, checks it, maps it, writes its own proof
 *           <============================== MAPPED (by the lower rank's socket)
 *           <------------------------------ MAPPED, with the lower rank's proof
 *   checks it; stands
 *   READY   ------------------------------> with the higher rank's proof; stands
 *
 * A datagram lies in the socket of its receiver when sending it returns. So when the word that follows it has
 * come, it is there, or never comes: nothing has to be waited for but words of the session, which watches
 * over the peer. Whatever fails before both stand is a refusal, with a text that says why, and both take the
 * next lane.
 *
 * What is checked: the user of the other process, by the kernel's word; that the memory cannot shrink under a
 * reader, nor its seals be changed; its size; and that each reads what the other has written. With its proof
 * each says whether it also reads any memory of the other's (reach.c).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gcoll/base/sealed.h"
#include "transport/address.h"
#include "transport/shm/shm.h"

#define VERSION 4
/* Between two tries to send to a socket that is full. */
#define AGAIN_MS 1
/* The session has so long to say why the peer is gone. */
#define DOUBT_MS 1000

enum { WORD_HELLO = 1, WORD_GIVEN = 2, WORD_MAPPED = 3, WORD_READY = 4, WORD_BELL = 5 };

/* As it travels, within a host: in this host's order of bytes. */
typedef struct hello_word {
    uint8_t word, unused[7];
    gcoll_shm_hello hello;
} hello_word;
typedef struct proof_word {
    uint8_t word;
    uint8_t proof[GCOLL_RING_PROOF];
    uint8_t reaches; /* 1: the sender reads any memory of the receiver's; 0: it does not */
} proof_word;
_Static_assert(sizeof(hello_word) <= GCOLL_LANE_WORD_MAX, "a hello is a word");

static void say(const gcoll_shm_pair *pair, uint8_t word) {
    gcoll_session_say(pair->session, &word, sizeof word);
}

static void say_proof(const gcoll_shm_pair *pair, uint8_t word) {
    proof_word said = {.word = word, .reaches = pair->reaches};
    memcpy(said.proof, pair->proof[1 - pair->which], sizeof said.proof);
    gcoll_session_say(pair->session, (const uint8_t *)&said, sizeof said);
}

/* The peer is at fault, or the way between the two. The pair has ended afterwards. */
GCOLL_PRINTF(2, 3) static void refuse(gcoll_shm_pair *pair, const char *format, ...) {
    char text[GCOLL_SHM_WHY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gcoll_session_refuse(pair->session, GCOLL_ERR_UNSUPPORTED, text);
}

/* This rank lacks something. */
static void refuse_for(gcoll_shm_pair *pair, const char *what, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    (gcoll_error)(gcoll_status_of_errno(error), "shm: %s: %s", what, gcoll_errno_text(error, text));
    gcoll_session_refuse(pair->session, gcoll_status_of_errno(error), NULL);
}

/* ---- The memory ------------------------------------------------------------------------------------- */

#ifdef GCOLL_SHM_ONE_MAPPING
/* How many ends of this process use a mapping beside the one that made it: behind what both write. */
static uint32_t *others_of(const gcoll_shm_pair *pair) {
    return (uint32_t *)(void *)((uint8_t *)pair->memory + GCOLL_RING_PAGE - sizeof(uint32_t));
}

/* Whether nobody else of this process uses it, or will when it finds it in its socket. */
static bool leaves_last(const gcoll_shm_pair *pair) {
    if (pair->which == 0 && !pair->is_peer_checked)
        return false;
    return (pair->which == 1 && !pair->elsewhere) ||
           __atomic_fetch_sub(others_of(pair), 1, __ATOMIC_ACQ_REL) == 0;
}
#endif

static void unmap(gcoll_shm_pair *pair) {
    bool is_last = pair->memory;
#ifdef GCOLL_SHM_ONE_MAPPING
    is_last = is_last && leaves_last(pair);
#endif
    if (is_last)
        munmap(pair->memory, pair->memory_bytes);
    pair->memory = NULL;
}

/* Returns 0 or an error number. */
static int map(gcoll_shm_pair *pair, int fd, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return errno;
    pair->memory = memory;
    pair->memory_bytes = bytes;
    /* A forked child has no part in it. Without this it would keep the memory, and harm nothing. */
    madvise(memory, bytes, MADV_DONTFORK);
#ifdef MADV_POPULATE_WRITE
    /* Else the first messages take a page fault for each page of the rings, on both sides, which makes a
     * message of 16 KiB three times as slow. Linux before 5.14 refuses. */
    madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
    return 0;
}

/* Where it can be read by nobody but a process of this user and host. */
static void write_side(const gcoll_shm_pair *pair) {
    gcoll_ring_side *own = gcoll_ring_side_of(pair->memory, pair->which);
    memcpy(own->proof, pair->proof[pair->which], GCOLL_RING_PROOF);
    own->token_at = (uint64_t)(uintptr_t)pair->own.token;
}

/* Makes memory and sends it. Returns 0 or an error number, with *what. Forks are held. */
static int give_held(gcoll_shm_pair *pair, const char **what) {
    const size_t bytes = gcoll_ring_memory(pair->ring_bytes);
    const int fd = gcoll_sealed_open("gcoll-shm");
    *what = "cannot make memory to share (memfd_create)";
    if (fd < 0)
        return errno;
    int error = gcoll_sealed_fill(fd, bytes, true, what);
    if (error == 0) {
        *what = "cannot map memory to share";
        error = map(pair, fd, bytes);
    }
    if (error == 0) {
        write_side(pair);
        error = gcoll_shm_door_send(pair, GCOLL_SHM_MEMORY, fd);
        *what = NULL;
    }
    close(fd);
    if (error != 0 && pair->memory) { /* nobody else has it */
        munmap(pair->memory, bytes);
        pair->memory = NULL;
    }
    return error;
}

/* Maps memory that came, or says in pair->why why not. Forks are held. The peer's hello may come later. */
static void take_memory(gcoll_shm_pair *pair, int fd) {
    uint64_t bytes;
    bool is_whole;
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (!gcoll_sealed_check(fd, &bytes, &is_whole)) {
        snprintf(pair->why, sizeof pair->why, "offers memory that could shrink");
        return;
    }
    if (bytes < GCOLL_RING_PAGE || bytes > gcoll_ring_memory(GCOLL_RING_MOST)) {
        snprintf(pair->why, sizeof pair->why, "offers memory of a size that cannot be");
        return;
    }
#ifdef GCOLL_SHM_ONE_MAPPING
    if (pair->elsewhere) {
        pair->memory = pair->elsewhere;
        pair->memory_bytes = (size_t)bytes;
        __atomic_fetch_add(others_of(pair), 1, __ATOMIC_ACQ_REL);
        return;
    }
#endif
    const int error = map(pair, fd, (size_t)bytes);
    if (error != 0)
        snprintf(pair->why, sizeof pair->why, "offers memory that cannot be mapped here: %s",
                 gcoll_errno_text(error, text));
}

void gcoll_shm_on_datagram(gcoll_shm_pair *pair, gcoll_shm_kind kind, const struct ucred *sender, int fd,
                           bool is_cut, void *elsewhere) {
    if (pair->state != GCOLL_SHM_MEETS || pair->is_peer_checked)
        return;
    pair->elsewhere = elsewhere;
    pair->is_peer_checked = true;
    pair->pid = sender->pid;
    if (sender->uid != getuid())
        snprintf(pair->why, sizeof pair->why, "belongs to another user (%u; this rank to %u)", sender->uid,
                 (uint32_t)getuid());
    else if (kind == GCOLL_SHM_MEMORY && pair->which == 1 && fd < 0)
        snprintf(pair->why, sizeof pair->why, "%s",
                 is_cut ? "sends memory, for which no descriptor is free here, or which may not be received"
                        : "sends no memory");
    else if (kind == GCOLL_SHM_MEMORY && pair->which == 1)
        take_memory(pair, fd);
}

/* ---- Words ------------------------------------------------------------------------------------------ */

static void set_up(gcoll_shm_pair *pair) {
    gcoll_ring_write_to(&pair->out, pair->memory, pair->ring_bytes, pair->which);
    gcoll_ring_read_from(&pair->in, pair->memory, pair->ring_bytes, pair->which);
    gcoll_shm_try_reach(pair);
}

static void stand(gcoll_shm_pair *pair, const uint8_t *bytes) {
    const gcoll_shm *shm = pair->shm;
    pair->state = GCOLL_SHM_STANDS;
    pair->is_reached = bytes[offsetof(proof_word, reaches)] == 1;
    gcoll_session_stand(pair->session, shm->eager_bytes, shm->pool_bytes, pair->peer.eager_bytes,
                        pair->peer.pool_bytes);
    gcoll_shm_want_output(pair);
}

/* The peer's socket cannot be sent to. It may be that the peer is gone, which its session is about to tell.
 */
static void unreachable(gcoll_shm_pair *pair, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    snprintf(pair->why, sizeof pair->why,
             "cannot be reached by a socket of this host, as in another network namespace: %s",
             gcoll_errno_text(error, text));
    if (gcoll_session_has_choice(pair->session))
        refuse(pair, "%s", pair->why);
    else
        gcoll_session_doubt(pair->session, DOUBT_MS, false, "%s", pair->why);
}

/* How long room in a socket is waited for. With another lane to take there must be time left to do so. */
static int64_t patience(const gcoll_shm_pair *pair) {
    const int64_t limit_ms = pair->shm->limit_ms;
    return gcoll_session_has_choice(pair->session) ? limit_ms / 4 : limit_ms;
}

static void begin_patience(gcoll_shm_pair *pair) {
    pair->until_ms = gcoll_now_ms() + patience(pair);
}

/* Whether what could not be sent may be sent in a moment: the peer's socket is full, or so many descriptors
 * of this user are on their way (ETOOMANYREFS), to ranks that take them. If the latter lasts, it does for all
 * peers: all pairs of a port wait for it together. */
static bool may_pass(gcoll_shm_pair *pair, int error) {
    const int64_t now = gcoll_now_ms();
    if (error == ETOOMANYREFS && gcoll_session_has_choice(pair->session)) {
        if (pair->shm->crowded_until_ms == 0)
            pair->shm->crowded_until_ms = now + patience(pair);
        return now < pair->shm->crowded_until_ms;
    }
    return (error == EAGAIN || error == ETOOMANYREFS) && now < pair->until_ms;
}

/* Sends memory, or the answer to it, and then says so. */
static void send_and_say(gcoll_shm_pair *pair) {
    const bool gives = pair->which == 0;
    const char *what = NULL;
    int error;
    if (gives) {
        gcoll_fork_hold();
        error = give_held(pair, &what);
        gcoll_fork_release();
    } else {
        error = gcoll_shm_door_send(pair, GCOLL_SHM_MAPPED, -1);
    }
    if (error != 0 && !what && may_pass(pair, error)) {
        pair->state = GCOLL_SHM_SENDS;
        pair->again_ms = gcoll_now_ms() + AGAIN_MS;
        return;
    }
    pair->state = GCOLL_SHM_MEETS;
    if (error == ETOOMANYREFS && !what)
        what = "too many descriptors of this user stay on their way, so memory cannot be sent";
    if (error != 0 && what)
        refuse_for(pair, what, error);
    else if (error == EAGAIN)
        refuse(pair, "takes nothing from its socket (for %lld ms)", (long long)patience(pair));
    else if (error != 0)
        unreachable(pair, error);
    else if (gives)
        say(pair, WORD_GIVEN);
    else
        say_proof(pair, WORD_MAPPED);
}

void gcoll_shm_send_again(gcoll_shm_pair *pair) {
    if (gcoll_now_ms() >= pair->again_ms)
        send_and_say(pair);
}

/* Whether a peer's sizes satisfy the rules of the ring, and of transport/flow. */
static bool is_sound(const gcoll_shm_hello *peer) {
    return gcoll_ring_is_size(peer->ring_bytes) && peer->pool_bytes >= GCOLL_FLOW_POOL_MIN &&
           peer->pool_bytes <= GCOLL_FLOW_POOL_MAX &&
           peer->eager_bytes <= peer->pool_bytes / 2 - GCOLL_FLOW_OVERHEAD_BYTES;
}

/* Why what the peer says of itself does not fit; NULL: it does. */
static const char *check(const gcoll_shm_pair *pair) {
    const gcoll_shm_hello *peer = &pair->peer;
    if (peer->host != pair->own.host)
        return "is on another host, or in another container or network namespace";
    if (peer->version != VERSION)
        return "speaks another version of shm";
    if (!is_sound(peer))
        return "has sizes that cannot be";
    return NULL;
}

static void on_hello(gcoll_shm_pair *pair, const uint8_t *bytes) {
    memcpy(&pair->peer, bytes + offsetof(hello_word, hello), sizeof pair->peer);
    const char *wrong = check(pair);
    if (wrong) {
        refuse(pair, "%s", wrong);
        return;
    }
    pair->heard_hello = true;
    pair->ring_bytes =
        pair->own.ring_bytes < pair->peer.ring_bytes ? pair->own.ring_bytes : pair->peer.ring_bytes;
    begin_patience(pair);
    if (pair->which == 0)
        send_and_say(pair);
}

/* Finds what was sent before a word that has come. False: it is not there, or not right, and the pair has
 * ended. */
static bool find_sent(gcoll_shm_pair *pair) {
    if (!pair->is_peer_checked)
        gcoll_shm_door_read(pair->shm);
    const bool is_whole = pair->memory && pair->memory_bytes == gcoll_ring_memory(pair->ring_bytes);
    if (pair->is_peer_checked && pair->why[0] == '\0' && is_whole)
        return true;
    if (pair->why[0] != '\0')
        refuse(pair, "%s", pair->why);
    else if (pair->is_peer_checked && pair->memory)
        refuse(pair, "offers memory of another size than it said");
    else
        refuse(pair, "sent what did not come by the socket of this host");
    return false;
}

static void on_given(gcoll_shm_pair *pair) {
    if (!find_sent(pair))
        return;
    const gcoll_ring_side *peer = gcoll_ring_side_of(pair->memory, 1 - pair->which);
    memcpy(pair->proof[1 - pair->which], peer->proof, GCOLL_RING_PROOF);
    write_side(pair);
    set_up(pair);
    pair->has_answered = true;
    begin_patience(pair);
    send_and_say(pair);
}

/* Whether the peer has read what this rank has written into the memory. */
static bool is_proved(const gcoll_shm_pair *pair, const uint8_t *bytes) {
    return memcmp(bytes + offsetof(proof_word, proof), pair->proof[pair->which], GCOLL_RING_PROOF) == 0;
}

static void on_mapped(gcoll_shm_pair *pair, const uint8_t *bytes) {
    if (!find_sent(pair))
        return;
    if (!is_proved(pair, bytes)) {
        refuse(pair, "does not see what this rank writes to the memory that both share");
        return;
    }
    memcpy(pair->proof[1 - pair->which], gcoll_ring_side_of(pair->memory, 1 - pair->which)->proof,
           GCOLL_RING_PROOF);
    set_up(pair);
    say_proof(pair, WORD_READY);
    stand(pair, bytes);
}

static void on_ready(gcoll_shm_pair *pair, const uint8_t *bytes) {
    if (is_proved(pair, bytes))
        stand(pair, bytes);
    else
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (a wrong proof that it shares memory)");
}

void gcoll_shm_hear(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    if (!pair)
        return; /* this rank is about to fail for what it lacks */
    const uint8_t word = count > 0 ? bytes[0] : 0;
    const bool meets = pair->state == GCOLL_SHM_MEETS && pair->heard_hello;
    const bool is_lower = pair->which == 0;
    if (word == WORD_HELLO && count == sizeof(hello_word) && !pair->heard_hello)
        on_hello(pair, bytes);
    else if (word == WORD_GIVEN && count == 1 && meets && !is_lower && !pair->has_answered)
        on_given(pair);
    else if (word == WORD_MAPPED && count == sizeof(proof_word) && meets && is_lower)
        on_mapped(pair, bytes);
    else if (word == WORD_READY && count == sizeof(proof_word) && meets && pair->has_answered)
        on_ready(pair, bytes);
    else if (word != WORD_BELL || count != 1 ||
             pair->state != GCOLL_SHM_STANDS) /* a bell has woken already */
        gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (a word of shm that does not fit)");
}

void gcoll_shm_say_bell(const gcoll_shm_pair *pair) {
    say(pair, WORD_BELL);
    gcoll_session_flush(pair->session);
}

/* ---- Beginning and end ------------------------------------------------------------------------------ */

static gcoll_status make(gcoll_session *session, gcoll_shm *shm) {
    gcoll_status status = gcoll_shm_door_open(shm);
    if (status != GCOLL_OK)
        return status;
    gcoll_shm_pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u",
                           gcoll_session_rank(session));
    *pair = (gcoll_shm_pair){.shm = shm,
                             .session = session,
                             .flow = (gcoll_flow *)(void *)session,
                             .which = shm->rank < gcoll_session_rank(session) ? 0 : 1,
                             .own = {.version = VERSION,
                                     .ring_bytes = shm->ring_bytes,
                                     .eager_bytes = shm->eager_bytes,
                                     .pool_bytes = shm->pool_bytes,
                                     .host = gcoll_net_own_address(shm->net)->host},
                             .next = shm->pairs};
    memcpy(pair->own.name, shm->name, sizeof pair->own.name);
    status = gcoll_random_bytes(pair->own.token, sizeof pair->own.token);
    if (status == GCOLL_OK)
        status = gcoll_random_bytes(pair->proof[pair->which], GCOLL_RING_PROOF);
    if (status != GCOLL_OK) {
        free(pair);
        return status;
    }
    shm->pairs = pair;
    gcoll_session_set_lane_state(session, pair);
    return GCOLL_OK;
}

void gcoll_shm_begin(gcoll_session *session, gcoll_lane_port *port) {
    const gcoll_status status = make(session, gcoll_shm_of(port));
    if (status != GCOLL_OK) {
        gcoll_session_refuse(session, status, NULL);
        return;
    }
    const gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    const hello_word said = {.word = WORD_HELLO, .hello = pair->own};
    gcoll_session_say(session, (const uint8_t *)&said, sizeof said);
}

void gcoll_shm_end(gcoll_session *session) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    if (!pair)
        return;
    gcoll_shm_drop(session);
    gcoll_shm_end_blocks(pair, true);
    unmap(pair);
    pair->session = NULL;
    pair->flow = NULL;
    pair->state = GCOLL_SHM_ENDED;
    pair->shm->has_ended = true;
    gcoll_session_set_lane_state(session, NULL);
}

void gcoll_shm_sweep(gcoll_shm *shm) {
    gcoll_shm_pair **at = &shm->pairs;
    while (*at) {
        gcoll_shm_pair *pair = *at;
        if (pair->state == GCOLL_SHM_ENDED && !pair->in_outputs) {
            *at = pair->next;
            free(pair->control.bytes);
            free(pair);
        } else {
            at = &pair->next;
        }
    }
    shm->has_ended = false;
}
