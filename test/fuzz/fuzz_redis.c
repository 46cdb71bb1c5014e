/* test/fuzz/fuzz_redis.c - what a Redis server, or somebody in its place, answers to a request. */
#include "test/fuzz/fuzz.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/redis_link.h"

#define LIMIT_NS INT64_C(5000000000)

/* The server's end, for a thread that waits for the request and answers by the input. */
typedef struct server {
    int fd;
    const uint8_t *data;
    size_t bytes;
} server;

static void *serve(void *arg) {
    const server *s = arg;
    char request[256];
    if (read(s->fd, request, sizeof request) > 0) {
        size_t at = 0;
        while (at < s->bytes) {
            const ssize_t sent = send(s->fd, s->data + at, s->bytes - at, MSG_NOSIGNAL);
            if (sent <= 0)
                break;
            at += (size_t)sent;
        }
    }
    shutdown(s->fd, SHUT_WR);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char host[] = "127.0.0.1", name[] = "127.0.0.1:6379";
    const gcoll_redis_address address = {.host = host, .name = name, .port = 6379};
    const char *words[] = {"GET", "key"};
    const size_t lengths[] = {3, 3};
    gcoll_redis_fault fault;
    redisReply *reply = NULL;
    pthread_t thread;
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    gcoll_redis_link link = {.address = &address, .fd = ends[0], .reader = redisReaderCreate()};
    server s = {ends[1], data, bytes};
    MUST(link.reader);
    MUST(pthread_create(&thread, NULL, serve, &s) == 0);
    const gcoll_status status =
        gcoll_redis_call(&link, 2, words, lengths, gcoll_now_ns() + LIMIT_NS, &fault, &reply);
    if (status == GCOLL_OK) {
        char text[GCOLL_REDIS_QUOTE];
        MUST(reply && !fault.unknown);
        if (reply->str) {
            gcoll_redis_quote(reply, text);
            for (const char *at = text; *at != '\0'; at++)
                MUST(*at >= ' ' && *at <= '~');
        }
        freeReplyObject(reply);
    }
    MUST(status != GCOLL_ERR_TIMEOUT); /* the stream ended */
    gcoll_redis_end(&link);
    shutdown(ends[1], SHUT_RDWR);
    pthread_join(thread, NULL);
    close(ends[1]);
    return 0;
}
