/*
 * gcoll/store/redis_link.c - sends requests and reads answers on one connection to a Redis server.
 *
 * hiredis only formats requests and parses answers. The socket is our own, so that one deadline covers a
 * whole request instead of each read, and so that we know whether a lost request had been sent; and so that
 * TLS can lie between the two.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/base/sha256.h"
#include "gcoll/base/text.h"
#include "gcoll/store/connect.h"
#include "gcoll/store/redis_link.h"

/* Longest answer that is accepted: a value of full length and its framing, or an error with a long text. */
#define ANSWER_MAX (GCOLL_STORE_VALUE_MAX + 4096)
#define CHUNK      16384
/* A text that has this many consecutive bytes of the password reveals it. */
#define SECRET_RUN 4

void gcoll_redis_close(gcoll_redis_link *link) {
    gcoll_tls_destroy(link->tls);
    link->tls = NULL;
    if (link->fd >= 0)
        close(link->fd);
    if (link->reader)
        redisReaderFree(link->reader);
    link->fd = -1;
    link->reader = NULL;
}

const char *gcoll_redis_quote(const redisReply *reply, char text[GCOLL_REDIS_QUOTE]) {
    size_t length = (size_t)reply->len < GCOLL_REDIS_QUOTE - 1 ? (size_t)reply->len : GCOLL_REDIS_QUOTE - 1;
    memcpy(text, reply->str, length);
    text[length] = '\0';
    gcoll_text_clean(text);
    return text;
}

/* ---- Bytes -------------------------------------------------------------------------------------- */

static gcoll_status lost(const gcoll_redis_link *link, const char *why, gcoll_redis_fault *fault) {
    fault->transient = true;
    gcoll_error(GCOLL_ERR_IO, "redis store %.300s: the connection was lost: %s", link->address->name, why);
    return GCOLL_ERR_IO;
}

static gcoll_status late(const gcoll_redis_link *link, gcoll_redis_fault *fault) {
    fault->transient = true;
    gcoll_error(GCOLL_ERR_TIMEOUT, "redis store %.300s: the server did not answer in time",
                link->address->name);
    return GCOLL_ERR_TIMEOUT;
}

static gcoll_status nonsense(const gcoll_redis_link *link, const char *what) {
    gcoll_error(GCOLL_ERR_PROTOCOL, "redis store %.300s: the answer is not that of a Redis server: %s",
                link->address->name, what);
    return GCOLL_ERR_PROTOCOL;
}

/* Returns whether an idle connection can be used again: the server has neither closed it nor sent anything.
 * Nothing has been sent on it then, so even an add can be sent safely on a new connection. */
static bool usable(const gcoll_redis_link *link) {
    if (link->fd < 0)
        return false;
    char byte;
    return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

/* TLS failed, and not because the connection is lost. */
static gcoll_status distrusted(const gcoll_redis_link *link) {
    gcoll_error(GCOLL_ERR_IO, "redis store %.300s: the server %s", link->address->name,
                gcoll_tls_problem(link->tls));
    return GCOLL_ERR_IO;
}

/* A server that refuses TLS says why and closes: an error of sending may come before that is read. */
static gcoll_status failed(const gcoll_redis_link *link, gcoll_redis_fault *fault) {
    const int error = errno;
    char said[CHUNK];
    const struct iovec piece = {.iov_base = said, .iov_len = sizeof said};
    if (link->tls && error != EPROTO && gcoll_tls_recv(link->tls, &piece, 1, true) < 0 && errno == EPROTO)
        return distrusted(link);
    return link->tls && error == EPROTO ? distrusted(link) : lost(link, strerror(error), fault);
}

static ssize_t send_some(gcoll_redis_link *link, const char *data, size_t bytes) {
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    return link->tls ? gcoll_tls_send(link->tls, &piece, 1)
                     : send(link->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Waits until the kernel has taken what TLS has. */
static gcoll_status flush(gcoll_redis_link *link, int64_t deadline_ns, gcoll_redis_fault *fault) {
    while (link->tls && gcoll_tls_unsent(link->tls) > 0 && !gcoll_tls_flush(link->tls)) {
        if (errno != EAGAIN)
            return failed(link, fault);
        if (gcoll_store_poll(link->fd, POLLOUT, deadline_ns) != GCOLL_OK)
            return late(link, fault);
    }
    return GCOLL_OK;
}

static gcoll_status send_all(gcoll_redis_link *link, const char *data, size_t bytes, int64_t deadline_ns,
                             gcoll_redis_fault *fault) {
    while (bytes > 0) {
        ssize_t sent = send_some(link, data, bytes);
        if (sent >= 0) {
            fault->unknown = true;
            data += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (gcoll_store_poll(link->fd, POLLOUT, deadline_ns) != GCOLL_OK)
                return late(link, fault);
        } else if (errno != EINTR) {
            return failed(link, fault);
        }
    }
    return flush(link, deadline_ns, fault);
}

/* Checks the first two bytes of an answer. We never ask for a list, so the only list allowed is the absent
 * one, "*-1". This must be checked first, because hiredis allocates as many elements as the other side
 * claims. */
static bool plausible(const char *chunk, size_t bytes, size_t before, char *first) {
    for (size_t i = 0; i < bytes && before + i < 2; i++) {
        if (before + i == 0) {
            *first = chunk[i];
            if (chunk[i] == '\0' || !strchr("+-:$*", chunk[i]))
                return false;
        } else if (*first == '*' && chunk[i] != '-') {
            return false;
        }
    }
    return true;
}

/* Receives what is there. 0: the server closed the connection. -1: errno. */
static ssize_t receive_now(gcoll_redis_link *link, char *chunk, size_t bytes) {
    const struct iovec piece = {.iov_base = chunk, .iov_len = bytes};
    return link->tls ? gcoll_tls_recv(link->tls, &piece, 1, true)
                     : recv(link->fd, chunk, bytes, MSG_DONTWAIT);
}

/* Receives once and feeds the reader. *total counts the bytes of the answer; *first is the first of them. */
static gcoll_status receive_some(gcoll_redis_link *link, int64_t deadline_ns, size_t *total, char *first,
                                 gcoll_redis_fault *fault) {
    char chunk[CHUNK];
    ssize_t got = receive_now(link, chunk, sizeof chunk); /* TLS may have it already */
    if (got < 0 && errno == EAGAIN) {
        if (gcoll_store_poll(link->fd, POLLIN, deadline_ns) != GCOLL_OK)
            return late(link, fault);
        got = receive_now(link, chunk, sizeof chunk);
    }
    if (got == 0)
        return lost(link, "the server closed it", fault);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? GCOLL_OK : failed(link, fault);
    if (!plausible(chunk, (size_t)got, *total, first))
        return nonsense(link, "wrong first byte");
    *total += (size_t)got;
    if (*total > ANSWER_MAX)
        return nonsense(link, "longer than any value may be");
    if (redisReaderFeed(link->reader, chunk, (size_t)got) != REDIS_OK) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "redis store %.300s: no memory for an answer", link->address->name);
        return GCOLL_ERR_NO_MEMORY;
    }
    return GCOLL_OK;
}

static gcoll_status receive(gcoll_redis_link *link, int64_t deadline_ns, gcoll_redis_fault *fault,
                            redisReply **reply) {
    size_t total = 0;
    char first = 0;
    for (;;) {
        void *found = NULL;
        gcoll_status status = receive_some(link, deadline_ns, &total, &first, fault);
        if (status != GCOLL_OK)
            return status;
        if (redisReaderGetReply(link->reader, &found) != REDIS_OK)
            return nonsense(link, link->reader->errstr);
        if (!found)
            continue;
        if (link->reader->pos != link->reader->len) {
            freeReplyObject(found);
            return nonsense(link, "more than one answer");
        }
        *reply = found;
        return GCOLL_OK;
    }
}

static gcoll_status exchange(gcoll_redis_link *link, int argc, const char **argv, const size_t *lengths,
                             int64_t deadline_ns, gcoll_redis_fault *fault, redisReply **reply) {
    char *text = NULL;
    long long bytes = redisFormatCommandArgv(&text, argc, argv, lengths);
    if (bytes < 0 || !text) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "redis store %.300s: no memory for a request", link->address->name);
        return GCOLL_ERR_NO_MEMORY;
    }
    gcoll_status status = send_all(link, text, (size_t)bytes, deadline_ns, fault);
    gcoll_forget_secret(text, (size_t)bytes); /* it may have the password */
    redisFreeCommand(text);
    if (status == GCOLL_OK)
        status = receive(link, deadline_ns, fault, reply);
    if (status == GCOLL_OK)
        fault->unknown = false;
    else
        gcoll_redis_close(link);
    return status;
}

/* ---- Login -------------------------------------------------------------------------------------- */

/* Returns whether a text has SECRET_RUN consecutive bytes of the password, or all of a shorter one. Some
 * servers quote the words of a command that they do not know. */
static bool shows(const char *text, const char *password) {
    size_t length = strlen(password), run = length < SECRET_RUN ? length : SECRET_RUN;
    for (size_t i = 0; length > 0 && i + run <= length; i++)
        if (memmem(text, strlen(text), password + i, run))
            return true;
    return false;
}

/* Shortens a text to its first word if that is a Redis error code (WRONGPASS), else to nothing. */
static void keep_code(char *text) {
    size_t length = 0;
    while (isupper((unsigned char)text[length]))
        length++;
    if (text[length] != ' ')
        length = 0;
    text[length] = '\0';
}

/* Sends a command of the login. Any answer but an error is success. */
static gcoll_status step(gcoll_redis_link *link, const char *what, int argc, const char **argv,
                         int64_t deadline_ns, gcoll_redis_fault *fault) {
    size_t lengths[3];
    char text[GCOLL_REDIS_QUOTE] = "";
    for (int i = 0; i < argc; i++)
        lengths[i] = strlen(argv[i]);
    redisReply *reply;
    gcoll_status status = exchange(link, argc, argv, lengths, deadline_ns, fault, &reply);
    if (status != GCOLL_OK)
        return status;
    if (reply->type == REDIS_REPLY_ERROR) {
        gcoll_redis_quote(reply, text);
        fault->transient = strncmp(text, "LOADING ", 8) == 0;
        if (link->address->password && shows(text, link->address->password))
            keep_code(text);
        status = gcoll_error(GCOLL_ERR_IO, "redis store %.300s: the server refused %s: %s",
                             link->address->name, what, text);
        gcoll_redis_close(link);
    }
    freeReplyObject(reply);
    return status;
}

static gcoll_status log_in(gcoll_redis_link *link, int64_t deadline_ns, gcoll_redis_fault *fault) {
    const gcoll_redis_address *address = link->address;
    gcoll_status status = GCOLL_OK;
    if (address->password) {
        const char *words[3] = {"AUTH", address->user, address->password};
        if (!address->user)
            words[1] = address->password;
        status = step(link, "user or password", address->user ? 3 : 2, words, deadline_ns, fault);
    }
    if (status == GCOLL_OK && address->db != 0) {
        char number[16];
        const char *words[2] = {"SELECT", number};
        snprintf(number, sizeof number, "%u", (unsigned)address->db);
        char what[32];
        snprintf(what, sizeof what, "database %s", number);
        status = step(link, what, 2, words, deadline_ns, fault);
    }
    return status;
}

/* ---- Connecting --------------------------------------------------------------------------------- */

static const char *file_of(const char *given, const char *variable, const char *option, const char **from) {
    const char *text = given ? NULL : getenv(variable);
    const bool is_variable = text && text[0] != '\0';
    *from = is_variable ? variable : option;
    return is_variable ? text : given;
}

gcoll_status gcoll_redis_set_up(gcoll_redis_link *link) {
    const gcoll_redis_address *address = link->address;
    gcoll_tls_files files = {.trusts_system = true};
    files.authority = file_of(address->authority, "GCOLL_REDIS_CA", "?ca= of the URL (or GCOLL_REDIS_CA)",
                              &files.authority_from);
    files.certificate =
        file_of(address->certificate, "GCOLL_REDIS_CERTIFICATE",
                "?certificate= of the URL (or GCOLL_REDIS_CERTIFICATE)", &files.certificate_from);
    files.key =
        file_of(address->key, "GCOLL_REDIS_KEY", "?key= of the URL (or GCOLL_REDIS_KEY)", &files.key_from);
    return gcoll_tls_setup_create(&files, &link->setup);
}

void gcoll_redis_end(gcoll_redis_link *link) {
    gcoll_redis_close(link);
    gcoll_tls_setup_destroy(link->setup);
    link->setup = NULL;
}

/* Begins TLS on a new connection. */
static gcoll_status protect(gcoll_redis_link *link, int64_t deadline_ns, gcoll_redis_fault *fault) {
    const gcoll_tls_side side = {.fd = link->fd, .name = link->address->host};
    const gcoll_status status = gcoll_tls_create(link->setup, &side, &link->tls);
    if (status != GCOLL_OK)
        return status;
    for (;;) {
        const int done = gcoll_tls_shake(link->tls);
        if (done == 1)
            return flush(link, deadline_ns, fault);
        if (done < 0)
            return failed(link, fault);
        const short events = gcoll_tls_unsent(link->tls) > 0 ? POLLIN | POLLOUT : POLLIN;
        if (gcoll_store_poll(link->fd, events, deadline_ns) != GCOLL_OK) {
            fault->transient = true;
            gcoll_error(GCOLL_ERR_TIMEOUT,
                        "redis store %.300s: the server did not answer TLS in time; if it has no TLS, the "
                        "URL is redis://",
                        link->address->name);
            return GCOLL_ERR_TIMEOUT;
        }
    }
}

static gcoll_status connect_to(const gcoll_redis_address *address, int64_t deadline_ns,
                               gcoll_redis_fault *fault, int *fd) {
    const gcoll_store_place place = {
        .kind = "redis", .host = address->host, .name = address->name, .port = address->port};
    struct addrinfo *list = NULL;
    gcoll_status status = gcoll_store_resolve(&place, deadline_ns, &fault->transient, &list);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_store_connect(&place, list, deadline_ns, &fault->transient, NULL, fd);
    freeaddrinfo(list);
    return status;
}

gcoll_status gcoll_redis_call(gcoll_redis_link *link, int argc, const char **argv, const size_t *lengths,
                              int64_t deadline_ns, gcoll_redis_fault *fault, redisReply **reply) {
    gcoll_status status = GCOLL_OK;
    memset(fault, 0, sizeof *fault);
    if (!usable(link)) {
        gcoll_redis_close(link);
        status = connect_to(link->address, deadline_ns, fault, &link->fd);
        if (status != GCOLL_OK)
            return status;
        memset(fault, 0, sizeof *fault);
        link->reader = redisReaderCreate();
        if (!link->reader) {
            gcoll_redis_close(link);
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "redis store %.300s: no memory", link->address->name);
        }
        if (link->setup)
            status = protect(link, deadline_ns, fault);
        if (status == GCOLL_OK)
            status = log_in(link, deadline_ns, fault);
        /* So far only the login was sent, not the request. */
        fault->unknown = false;
    }
    if (status == GCOLL_OK)
        return exchange(link, argc, argv, lengths, deadline_ns, fault, reply);
    gcoll_redis_close(link);
    return status;
}
