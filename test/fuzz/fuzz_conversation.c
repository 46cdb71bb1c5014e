/*
 * test/fuzz/fuzz_conversation.c - a peer that passed the handshake, and says anything: frames, parts of
 * frames, and what is none. The first byte chooses the endpoint's options, the rest is said.
 *
 * Rank 0 is real, and has messages on their way in both directions; rank 1 is a plain socket.
 */
#include "test/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/interfaces.h"
#include "transport/lane.h"
#include "transport/session/proof.h"
#include "transport/size.h"
#include "transport/transport.h"

#define POOL_BYTES  8192
#define EAGER_BYTES 1000
#define MESSAGES    6
#define LARGE_BYTES 300000

static gcoll_endpoint *endpoint;
static int done_count, losses, news; /* messages; a lost peer; that, a peer that left or aborted */

static void on_done(gcoll_message *message) {
    (void)message;
    done_count++;
}
static void on_opened(void *arg, uint32_t peer, uint64_t stream,
                      const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    (void)arg;
    (void)stream;
    MUST(peer == 1 && fingerprint[0] <= 255);
}
static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
    (void)arg;
    MUST(peer == 1 && status != GCOLL_OK && text && text[0] != '\0');
    losses++;
    news++;
}
static void on_departed(void *arg, uint32_t peer) {
    (void)arg;
    MUST(peer == 1);
    news++;
}
static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
    (void)arg;
    MUST(from == 1 && memchr(note->text, 0, sizeof note->text));
    news++;
}
static void on_answered(void *arg, uint32_t peer, const gcoll_answer *answer) {
    (void)arg;
    MUST(peer == 1 && answer);
}
static void on_witnessed(void *arg, uint32_t by, uint32_t about, int64_t ago_ms) {
    (void)arg;
    (void)about;
    MUST(by < 2 && ago_ms >= 0);
}
static void on_changed(void *arg, uint32_t peer, const char *text) {
    (void)arg;
    MUST(peer == 1 && text);
    losses++;
    news++;
}

static const gcoll_events events = {.opened = on_opened,
                                    .failed = on_failed,
                                    .departed = on_departed,
                                    .aborted = on_aborted,
                                    .answered = on_answered,
                                    .witnessed = on_witnessed,
                                    .changed = on_changed};

static void go_on(void) {
    bool moved;
    MUST(gcoll_transport_tcp.progress(endpoint, 0, &moved) == GCOLL_OK);
}

/* Reads exactly so many bytes, while the endpoint goes on. */
static bool hear(int fd, uint8_t *bytes, size_t count) {
    for (int tries = 0; count > 0 && tries < 100000; tries++) {
        const ssize_t got = recv(fd, bytes, count, MSG_DONTWAIT);
        if (got == 0)
            return false;
        if (got > 0) {
            bytes += got;
            count -= (size_t)got;
        }
        go_on();
    }
    return count == 0;
}

static int call(const gcoll_address *address, const uint8_t group[16]) {
    struct sockaddr_storage where;
    uint8_t bytes[GCOLL_WIRE_REPLY_BYTES];
    gcoll_proof proof = {0};
    gcoll_wire_hello hello = {.version = GCOLL_WIRE_VERSION,
                              .oldest = GCOLL_WIRE_OLDEST,
                              .from = 1,
                              .eager_bytes = EAGER_BYTES,
                              .pool_bytes = POOL_BYTES,
                              .lanes = {GCOLL_LANE_TCP}};
    gcoll_wire_reply reply;
    memcpy(hello.group, group, 16);
    gcoll_host_address_at_port(&address->hosts[0], address->port, &where);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct linger hard = {1, 0}; /* thousands of connections a second must not wait for their ports */
    MUST(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    MUST(connect(fd, (const struct sockaddr *)&where, sizeof(struct sockaddr_in)) == 0);
    gcoll_proof_key_of_link(proof.key, NULL, group, address->token);
    MUST(gcoll_proof_greet(&proof, &hello) == GCOLL_OK);
    MUST(send(fd, proof.hello, sizeof proof.hello, MSG_NOSIGNAL) == (ssize_t)sizeof proof.hello);
    MUST(hear(fd, bytes, GCOLL_WIRE_CHALLENGE_BYTES) && gcoll_proof_take_challenge(&proof, bytes));
    gcoll_proof_prove(&proof, bytes);
    MUST(send(fd, bytes, GCOLL_WIRE_PROOF_BYTES, MSG_NOSIGNAL) == GCOLL_WIRE_PROOF_BYTES);
    MUST(hear(fd, bytes, GCOLL_WIRE_REPLY_BYTES) && gcoll_proof_is_reply(&proof, bytes));
    MUST(!gcoll_wire_get_reply(bytes, &reply) && reply.verdict == GCOLL_WIRE_WELCOME);
    return fd;
}

static void consume(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
    uint8_t *to = arg;
    MUST(offset <= LARGE_BYTES && bytes <= LARGE_BYTES - offset);
    memcpy(to + offset, data, bytes);
}

/* Sends and receives of all sizes, on streams 1 to 3. */
static void post(gcoll_message messages[MESSAGES], uint8_t *data) {
    static const uint64_t sizes[] = {0, 100, LARGE_BYTES};
    for (uint32_t i = 0; i < MESSAGES; i++) {
        gcoll_message *message = &messages[i];
        *message = (gcoll_message){.stream = 1 + i % 3,
                                   .bytes = sizes[i % 3],
                                   .data = data + (size_t)i * LARGE_BYTES,
                                   .done = on_done};
        if (i == 5) {
            message->granule = 4;
            message->consume = consume;
            message->consume_arg = message->data;
            message->data = NULL;
        }
        if (i < 3)
            gcoll_transport_tcp.post_send(endpoint, 1, message);
        else
            gcoll_transport_tcp.post_recv(endpoint, 1, message);
    }
}

/* Says all, and reads nothing that is needed. */
static void say(int fd, const uint8_t *data, size_t bytes) {
    uint8_t heard[4096];
    for (int tries = 0; bytes > 0 && tries < 10000; tries++) {
        const ssize_t sent = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* the endpoint had enough */
        data += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
        go_on();
        while (recv(fd, heard, sizeof heard, MSG_DONTWAIT) > 0) {
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static uint8_t *memory;
    gcoll_message messages[MESSAGES];
    char text[GCOLL_ADDRESS_MAX];
    gcoll_address address;
    gcoll_endpoint_options options = {.size = 2,
                                      .group = {7},
                                      .interface = "127.0.0.1",
                                      .eager_bytes = EAGER_BYTES,
                                      .eager_pool_bytes = POOL_BYTES,
                                      .connect_timeout_ms = 10000};
    if (bytes == 0)
        return 0;
    if (!memory)
        memory = calloc(MESSAGES, LARGE_BYTES);
    MUST(memory);
    options.checksum = data[0] & 1;
    done_count = losses = news = 0;
    MUST(gcoll_transport_tcp.open(&options, &events, &endpoint) == GCOLL_OK);
    MUST(gcoll_transport_tcp.address(endpoint, text, sizeof text) == GCOLL_OK);
    MUST(gcoll_address_parse(text, &address) == GCOLL_OK);
    const int fd = call(&address, options.group);
    post(messages, memory);
    gcoll_transport_tcp.flush(endpoint);
    say(fd, data + 1, bytes - 1);
    for (int i = 0; i < 3; i++)
        go_on();
    MUST(losses <= 1 && done_count <= MESSAGES);
    close(fd);
    for (int i = 0; i < 20 && news == 0; i++)
        go_on();
    gcoll_transport_tcp.close(endpoint, 0);
    return 0;
}
