/*
 * gcoll/store/pmi.c - the store "pmi:", a tcp store that rank 0 serves. The other processes get its address
 * from the launcher.
 *
 * MPICH's and Intel MPI's mpiexec, and srun --mpi=pmi2, give each process a socket, PMI_FD, to a key-value
 * server that speaks PMI-1 (Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for
 * Extreme-Scale Systems", EuroMPI 2010). A request is a line of words "name=value", and so is its answer.
 *
 * That server cannot be the store. A value becomes visible only after the next barrier of all processes, has
 * 1024 bytes at most, and can be neither replaced nor removed. So it carries one value. Rank 0 starts the
 * server of a tcp store at a free port, and puts its address there. After a barrier the others get the value
 * and connect.
 *
 * The conversation ends with "finalize" as soon as the value is known. mpiexec kills a whole job if a process
 * dies in the middle of a conversation, and ranks must outlive their peers. The price is that a process can
 * open this store only once, because mpiexec then answers nothing more. The socket stays open, because other
 * libraries may know its number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gcoll/base/base.h"
#include "gcoll/base/text.h"
#include "gcoll/store/connect.h"

#define KEY          "gcoll-store"
#define VALUE_FORMAT "1" /* the first word of the value */
#define VALUE_FAILED "failed"
#define BLANK        '~'  /* stands for a blank in a reason */
#define LINE_BYTES   4096 /* of a request or an answer; values have 1024 */
#define NAME_BYTES   512  /* of the name of the key-value space; servers allow 256 */
#define HOSTS_MAX    8    /* addresses of rank 0's host */
#define QUOTE_BYTES  240  /* of the launcher's text in a message, with the NUL */
#define LOOPBACK     "127.0.0.1"
#define ALLOWED      "a process that mpiexec of MPICH or Intel MPI, or srun --mpi=pmi2, has started"

/* The conversation of a process with the launcher's server. */
typedef struct conversation {
    int fd;
    uint32_t rank, size;
    int64_t timeout_ms, deadline_ns;
    char line[LINE_BYTES]; /* the latest answer */
} conversation;

/* Where rank 0 serves. */
typedef struct server_place {
    uint64_t identity; /* of the server */
    uint64_t host;     /* gcoll_host_identity */
    uint16_t port;
    size_t count;
    char *hosts[HOSTS_MAX + 1]; /* point into the value; the last is for the loopback */
} server_place;

static const char *quote(const char *text, char room[QUOTE_BYTES]) {
    snprintf(room, QUOTE_BYTES, "%.*s", QUOTE_BYTES - 1, text);
    gcoll_text_clean(room);
    return room;
}

/* ---- The variables ------------------------------------------------------------------------------ */

static gcoll_status read_variable(const char *name, uint64_t most, uint64_t *value) {
    const char *text = getenv(name);
    char room[QUOTE_BYTES];
    if (!text || text[0] == '\0')
        return gcoll_error(GCOLL_ERR_INVALID, "pmi store: %s is not set; allowed is " ALLOWED, name);
    if (gcoll_text_parse_whole(text, strlen(text), most, value))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "pmi store: %s is '%s'; allowed is a number of 0 to %" PRIu64, name,
                       quote(text, room), most);
}

static gcoll_status read_variables(conversation *c) {
    uint64_t fd = 0, rank = 0, size = 0;
    int type = 0;
    socklen_t bytes = sizeof type;
    gcoll_status status = read_variable("PMI_FD", INT32_MAX, &fd);
    if (status == GCOLL_OK)
        status = read_variable("PMI_SIZE", UINT32_MAX, &size);
    if (status == GCOLL_OK)
        status = read_variable("PMI_RANK", UINT32_MAX, &rank);
    if (status != GCOLL_OK)
        return status;
    if (rank >= size)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "pmi store: PMI_RANK is %" PRIu64 "; allowed is less than PMI_SIZE, %" PRIu64,
                           rank, size);
    if (getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "pmi store: PMI_FD is %" PRIu64 ", which is no open stream socket; allowed is " ALLOWED, fd);
    c->fd = (int)fd;
    c->rank = (uint32_t)rank;
    c->size = (uint32_t)size;
    return GCOLL_OK;
}

/* ---- Requests and answers ----------------------------------------------------------------------- */

static gcoll_status is_over(const conversation *c, const char *why) {
    return gcoll_error(
        GCOLL_ERR_IO,
        "pmi store: the launcher has closed PMI_FD, %d (%s): it serves a process until that has "
        "opened one pmi: store, or ended MPI",
        c->fd, why);
}

static gcoll_status late(const conversation *c, const char *awaited) {
    if (strcmp(awaited, "barrier_out") == 0)
        return gcoll_error(GCOLL_ERR_TIMEOUT,
                           "pmi store: not all %" PRIu32 " processes opened it within %" PRId64 " ms",
                           c->size, c->timeout_ms);
    return gcoll_error(GCOLL_ERR_TIMEOUT, "pmi store: the launcher did not answer within %" PRId64 " ms",
                       c->timeout_ms);
}

static gcoll_status nonsense(const conversation *c, const char *awaited) {
    char room[QUOTE_BYTES];
    return gcoll_error(GCOLL_ERR_PROTOCOL, "pmi store: the launcher answered '%s' instead of cmd=%s",
                       quote(c->line, room), awaited);
}

static gcoll_status send_line(const conversation *c, const char *line, size_t bytes, const char *awaited) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    for (size_t at = 0; at < bytes;) {
        const ssize_t sent = send(c->fd, line + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            at += (size_t)sent;
        else if (errno != EAGAIN && errno != EINTR)
            return is_over(c, gcoll_errno_text(errno, text));
        else if (errno == EAGAIN && gcoll_store_poll(c->fd, POLLOUT, c->deadline_ns) != GCOLL_OK)
            return late(c, awaited);
    }
    return GCOLL_OK;
}

/* Receives one line, without its end. The server sends one for each request. */
static gcoll_status receive_line(conversation *c, const char *awaited) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    size_t used = 0;
    for (;;) {
        const ssize_t got = recv(c->fd, c->line + used, sizeof c->line - 1 - used, MSG_DONTWAIT);
        if (got == 0)
            return is_over(c, "end of file");
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return is_over(c, gcoll_errno_text(errno, text));
        if (got < 0 && errno == EAGAIN && gcoll_store_poll(c->fd, POLLIN, c->deadline_ns) != GCOLL_OK)
            return late(c, awaited);
        used += got > 0 ? (size_t)got : 0;
        c->line[used] = '\0';
        char *end = memchr(c->line, '\n', used);
        if (used == sizeof c->line - 1 || memchr(c->line, '\0', used) || (end && end != c->line + used - 1))
            return nonsense(c, awaited);
        if (end) {
            *end = '\0';
            return GCOLL_OK;
        }
    }
}

/* The value of the word "name=value" in the answer, which ends at a blank; NULL if there is none. */
static const char *find_word(const conversation *c, const char *name, size_t *bytes) {
    const size_t length = strlen(name);
    for (const char *at = c->line; *at != '\0'; at += *at == ' ') {
        const size_t word = strcspn(at, " ");
        if (word > length && strncmp(at, name, length) == 0 && at[length] == '=') {
            *bytes = word - length - 1;
            return at + length + 1;
        }
        at += word;
    }
    return NULL;
}

static bool is_word(const conversation *c, const char *name, const char *value) {
    size_t bytes = 0;
    const char *found = find_word(c, name, &bytes);
    return found && bytes == strlen(value) && strncmp(found, value, bytes) == 0;
}

/* Sends a request and receives its answer, which must be cmd=`awaited`, with rc=0 or without an rc. */
static gcoll_status ask(conversation *c, const char *awaited, const char *format, ...) GCOLL_PRINTF(3, 4);
static gcoll_status ask(conversation *c, const char *awaited, const char *format, ...) {
    char line[LINE_BYTES];
    size_t bytes = 0;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line)
        return gcoll_error(GCOLL_ERR_INTERNAL, "pmi store: a request does not fit %zu bytes", sizeof line);
    gcoll_status status = send_line(c, line, (size_t)length, awaited);
    if (status == GCOLL_OK)
        status = receive_line(c, awaited);
    if (status == GCOLL_OK &&
        (!is_word(c, "cmd", awaited) || (find_word(c, "rc", &bytes) && !is_word(c, "rc", "0"))))
        status = nonsense(c, awaited);
    return status;
}

/* ---- The value ---------------------------------------------------------------------------------- */

static void add_addresses(const struct ifaddrs *list, int family, size_t room, gcoll_text *value,
                          size_t *count) {
    char host[INET6_ADDRSTRLEN];
    for (const struct ifaddrs *at = list; at && *count < HOSTS_MAX; at = at->ifa_next) {
        if (!at->ifa_addr || at->ifa_addr->sa_family != family || (at->ifa_flags & IFF_UP) == 0 ||
            (at->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)at->ifa_addr;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) /* needs an interface's name */
            continue;
        if (!inet_ntop(family, family == AF_INET6 ? (const void *)&six->sin6_addr : &four->sin_addr, host,
                       sizeof host) ||
            value->used + 1 + strlen(host) >= room)
            continue;
        gcoll_text_add(value, ",%s", host);
        (*count)++;
    }
}

/* "1,IDENTITY,HOST,PORT,ADDRESS..." in fewer than `room` bytes, which are enough for the first four. */
static gcoll_status write_place(uint16_t port, uint64_t identity, size_t room, char *text) {
    gcoll_text value = {.text = text, .bytes = LINE_BYTES, .used = 0};
    struct ifaddrs *list = NULL;
    size_t count = 0;
    char why[GCOLL_ERRNO_TEXT_MAX];
    if (getifaddrs(&list) != 0)
        return gcoll_error(gcoll_status_of_errno(errno), "pmi store: cannot list this host's addresses: %s",
                           gcoll_errno_text(errno, why));
    gcoll_text_add(&value, VALUE_FORMAT ",%016" PRIx64 ",%016" PRIx64 ",%u", identity, gcoll_host_identity(),
                   (unsigned)port);
    add_addresses(list, AF_INET, room, &value, &count);
    add_addresses(list, AF_INET6, room, &value, &count);
    freeifaddrs(list);
    return GCOLL_OK;
}

/* "failed,REASON": a value has neither blanks nor "=". */
static void write_failure(size_t room, char *text) {
    snprintf(text, room < LINE_BYTES ? room : LINE_BYTES, VALUE_FAILED ",%.300s", gcoll_last_error());
    gcoll_text_clean(text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == ' ' ? BLANK : *at == '=' ? ':' : *at;
}

static bool is_address(const char *text) {
    struct in6_addr ignored;
    return inet_pton(AF_INET, text, &ignored) == 1 || inet_pton(AF_INET6, text, &ignored) == 1;
}

static bool parse_hex(const char *text, uint64_t *number) {
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *number = strtoull(text, NULL, 16);
    return true;
}

/* Takes the value apart, in place. */
static bool parse_place(char *value, server_place *place) {
    char *rest = value;
    uint64_t port = 0;
    const char *format = strsep(&rest, ","), *identity = strsep(&rest, ","), *host = strsep(&rest, ","),
               *number = strsep(&rest, ",");
    if (strcmp(format, VALUE_FORMAT) != 0 || !parse_hex(identity, &place->identity) ||
        !parse_hex(host, &place->host) || !number ||
        !gcoll_text_parse_whole(number, strlen(number), UINT16_MAX, &port) || port == 0)
        return false;
    place->port = (uint16_t)port;
    for (char *one; (one = strsep(&rest, ",")); place->count++) {
        if (place->count == HOSTS_MAX || !is_address(one))
            return false;
        place->hosts[place->count] = one;
    }
    return true;
}

/* ---- Meeting ------------------------------------------------------------------------------------ */

static gcoll_status begin(conversation *c, char name[NAME_BYTES], size_t *room) {
    size_t bytes = 0;
    uint64_t most = 0;
    gcoll_status status = ask(c, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (status == GCOLL_OK)
        status = ask(c, "maxes", "cmd=get_maxes\n");
    if (status != GCOLL_OK)
        return status;
    const char *found = find_word(c, "vallen_max", &bytes);
    if (!found || !gcoll_text_parse_whole(found, bytes, INT32_MAX, &most) || most < 64)
        return nonsense(c, "maxes with a vallen_max of 64 or more");
    *room = (size_t)most < LINE_BYTES / 2 ? (size_t)most : LINE_BYTES / 2;
    status = ask(c, "my_kvsname", "cmd=get_my_kvsname\n");
    if (status != GCOLL_OK)
        return status;
    found = find_word(c, "kvsname", &bytes);
    if (!found || bytes == 0 || bytes >= NAME_BYTES)
        return nonsense(c, "my_kvsname with a kvsname");
    memcpy(name, found, bytes);
    name[bytes] = '\0';
    return GCOLL_OK;
}

static gcoll_status end(conversation *c) {
    return ask(c, "finalize_ack", "cmd=finalize\n");
}

/* Rank 0. If it cannot serve, the others shall know why at once. */
static gcoll_status lead(conversation *c, const char *name, size_t room, gcoll_store **store) {
    char value[LINE_BYTES], cause[QUOTE_BYTES];
    uint16_t port = 0;
    uint64_t identity = 0;
    gcoll_status failure = gcoll_store_tcp_serve(c->timeout_ms, &port, &identity, store);
    if (failure == GCOLL_OK) {
        failure = write_place(port, identity, room, value);
        if (failure != GCOLL_OK)
            gcoll_store_destroy(*store);
    }
    if (failure != GCOLL_OK) {
        write_failure(room, value);
        snprintf(cause, sizeof cause, "%s", gcoll_last_error());
    }
    gcoll_status status = ask(c, "put_result", "cmd=put kvsname=%s key=" KEY " value=%s\n", name, value);
    if (status == GCOLL_OK)
        status = ask(c, "barrier_out", "cmd=barrier_in\n");
    if (status == GCOLL_OK)
        status = end(c);
    if (failure != GCOLL_OK)
        return gcoll_error(failure, "%s", cause);
    if (status != GCOLL_OK)
        gcoll_store_destroy(*store);
    return status;
}

/* Connects to rank 0 by its value. */
static gcoll_status follow_value(const conversation *c, char *value, gcoll_store **store) {
    static char loopback[] = LOOPBACK;
    server_place place = {.count = 0};
    char room[QUOTE_BYTES];
    quote(value, room);
    if (strncmp(value, VALUE_FAILED ",", strlen(VALUE_FAILED ",")) == 0) {
        for (char *at = room; *at != '\0'; at++)
            *at = *at == BLANK ? ' ' : *at;
        return gcoll_error(GCOLL_ERR_IO, "pmi store: rank 0 cannot serve: %s",
                           room + strlen(VALUE_FAILED ","));
    }
    if (!parse_place(value, &place))
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "pmi store: the launcher's value of " KEY " makes no sense: '%s'", room);
    if (place.host == gcoll_host_identity()) { /* the quickest, and there without any other */
        memmove(place.hosts + 1, place.hosts, place.count * sizeof place.hosts[0]);
        place.hosts[0] = loopback;
        place.count++;
    }
    if (place.count == 0)
        return gcoll_error(GCOLL_ERR_IO,
                           "pmi store: rank 0 is on another host, which has no address but the loopback's");
    gcoll_status status = gcoll_store_tcp_find(place.hosts, place.count, place.port, place.identity,
                                               c->timeout_ms, c->deadline_ns, store);
    return status == GCOLL_OK
               ? status
               : gcoll_error(status, "pmi store: rank 0 cannot be reached: %s", gcoll_last_error());
}

static gcoll_status follow(conversation *c, const char *name, gcoll_store **store) {
    char value[LINE_BYTES];
    size_t bytes = 0;
    gcoll_status status = ask(c, "barrier_out", "cmd=barrier_in\n");
    if (status == GCOLL_OK)
        status = ask(c, "get_result", "cmd=get kvsname=%s key=" KEY "\n", name);
    if (status != GCOLL_OK)
        return status;
    const char *found = find_word(c, "value", &bytes);
    if (!found)
        return nonsense(c, "get_result with a value");
    memcpy(value, found, bytes);
    value[bytes] = '\0';
    status = end(c);
    return status == GCOLL_OK ? follow_value(c, value, store) : status;
}

gcoll_status gcoll_store_pmi_create(int64_t timeout_ms, gcoll_store **store) {
    conversation c = {.timeout_ms = timeout_ms, .deadline_ns = gcoll_store_deadline(timeout_ms)};
    char name[NAME_BYTES];
    gcoll_store *made = NULL;
    size_t room = 0;
    uint16_t port;
    uint64_t identity;
    gcoll_status status = read_variables(&c);
    if (status == GCOLL_OK && c.size == 1) /* nobody has to be told */
        return gcoll_store_tcp_serve(timeout_ms, &port, &identity, store);
    if (status == GCOLL_OK)
        status = begin(&c, name, &room);
    if (status == GCOLL_OK)
        status = c.rank == 0 ? lead(&c, name, room, &made) : follow(&c, name, &made);
    if (status != GCOLL_OK)
        return gcoll_error(status, "gcoll_store_open: %s", gcoll_last_error());
    *store = made;
    return GCOLL_OK;
}
