/* benchmark/peers/raw_connect.c - ranks meet by files in a folder, and connect each to each. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"

#define POLL_NS 2000000 /* between two looks for a file */

static bool complain_of(const char *what) {
    cli_complain("%s: %s", what, strerror(errno));
    return false;
}

/* Within a host there is no network for BBR to spare, and its pacing would be no floor. As in
 * transport/session/local.c; before the connection exists. */
static void unpace(const peer_options *options, int fd) {
    char name[17] = "";
    socklen_t length = sizeof name - 1;
    if (options->local > 0 && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 &&
        strncmp(name, "bbr", 3) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/* The IPv4 address of the interface. */
static bool address_of(const char *interface, struct in_addr *address) {
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return complain_of("getifaddrs");
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && strcmp(a->ifa_name, interface) == 0) {
            *address = ((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
            found = true;
        }
    }
    freeifaddrs(all);
    if (!found)
        cli_complain("--interface %s: no such interface with an IPv4 address", interface);
    return found;
}

/* Before the connection exists, as the window's scale is agreed with it. 0: the kernel's own. */
static void size_buffers(int fd, int bytes) {
    if (bytes > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
}

static bool listen_there(const peer_options *options, int buffer_bytes, int *listener,
                         struct sockaddr_in *where) {
    socklen_t length = sizeof *where;
    *where = (struct sockaddr_in){.sin_family = AF_INET};
    if (!address_of(options->interface, &where->sin_addr))
        return false;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unpace(options, *listener);
    size_buffers(*listener, buffer_bytes);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)where, sizeof *where) != 0 ||
        listen(*listener, (int)options->size) != 0 ||
        getsockname(*listener, (struct sockaddr *)where, &length) != 0)
        return complain_of("listening");
    return true;
}

static void file_of(const peer_options *options, int buffer_bytes, uint32_t rank, const char *suffix,
                    char *path, size_t bytes) {
    (void)snprintf(path, bytes, "%s/%s-%d.%u%s", options->store, options->job, buffer_bytes, rank, suffix);
}

/* Written under another name first: whoever sees the file sees all of it. */
static bool publish(const peer_options *options, int buffer_bytes, const struct sockaddr_in *where) {
    char half[1200];
    char path[1200];
    char text[INET_ADDRSTRLEN];
    file_of(options, buffer_bytes, options->rank, ".new", half, sizeof half);
    file_of(options, buffer_bytes, options->rank, "", path, sizeof path);
    FILE *file = fopen(half, "we");
    if (!file)
        return complain_of(half);
    int written = fprintf(file, "%s %u\n", inet_ntop(AF_INET, &where->sin_addr, text, sizeof text),
                          ntohs(where->sin_port));
    if (fclose(file) != 0 || written < 0 || rename(half, path) != 0)
        return complain_of(path);
    return true;
}

/* Bounded by the time limit of the program. */
static bool look_up(const peer_options *options, int buffer_bytes, uint32_t rank, struct sockaddr_in *where) {
    char path[1200];
    char text[64];
    char line[100] = "";
    unsigned port = 0;
    FILE *file;
    file_of(options, buffer_bytes, rank, "", path, sizeof path);
    while (!(file = fopen(path, "re")))
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    bool read = fgets(line, sizeof line, file);
    (void)fclose(file);
    *where = (struct sockaddr_in){.sin_family = AF_INET};
    char *space = strchr(line, ' ');
    if (read && space && (size_t)(space - line) < sizeof text) {
        *space = '\0';
        port = (unsigned)strtoul(space + 1, NULL, 10);
    }
    if (port == 0 || port > UINT16_MAX || inet_pton(AF_INET, line, &where->sin_addr) != 1) {
        cli_complain("%s: not the address of a rank", path);
        return false;
    }
    where->sin_port = htons((uint16_t)port);
    return true;
}

static bool ready(int fd) {
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        return complain_of("TCP_NODELAY");
    return true;
}

/* To ranks below ours; we say who we are. */
static bool call_lower(const peer_options *options, raw_mesh *mesh) {
    for (uint32_t r = 0; r < options->rank; r++) {
        struct sockaddr_in where;
        if (!look_up(options, mesh->buffer_bytes, r, &where))
            return false;
        mesh->fds[r] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        unpace(options, mesh->fds[r]);
        size_buffers(mesh->fds[r], mesh->buffer_bytes);
        if (mesh->fds[r] < 0 || connect(mesh->fds[r], (struct sockaddr *)&where, sizeof where) != 0 ||
            send(mesh->fds[r], &options->rank, sizeof options->rank, MSG_NOSIGNAL) != sizeof options->rank)
            return complain_of("connecting");
        if (!ready(mesh->fds[r]))
            return false;
    }
    return true;
}

static bool answer_higher(const peer_options *options, int listener, raw_mesh *mesh) {
    for (uint32_t left = options->size - options->rank - 1; left > 0; left--) {
        uint32_t who = 0;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return complain_of("accepting");
        if (recv(fd, &who, sizeof who, MSG_WAITALL) != sizeof who || who <= options->rank ||
            who >= options->size || mesh->fds[who] >= 0) {
            cli_complain("rank %u: a stranger at the port", options->rank);
            (void)close(fd);
            return false;
        }
        mesh->fds[who] = fd;
        if (!ready(fd))
            return false;
    }
    return true;
}

bool raw_connect(const peer_options *options, int buffer_bytes, raw_mesh *mesh) {
    struct sockaddr_in where;
    int listener = -1;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *mesh = (raw_mesh){.rank = options->rank,
                       .size = options->size,
                       .buffer_bytes = buffer_bytes,
                       .fds = calloc(options->size, sizeof *mesh->fds),
                       .yield = options->local > (processors > 0 ? (uint32_t)processors : 1)};
    for (uint32_t r = 0; mesh->fds && r < options->size; r++)
        mesh->fds[r] = -1;
    bool good = mesh->fds && listen_there(options, buffer_bytes, &listener, &where) &&
                publish(options, buffer_bytes, &where) && call_lower(options, mesh) &&
                answer_higher(options, listener, mesh);
    if (listener >= 0)
        (void)close(listener);
    if (!good)
        raw_close(mesh);
    return good;
}

void raw_close(raw_mesh *mesh) {
    for (uint32_t r = 0; mesh->fds && r < mesh->size; r++)
        if (mesh->fds[r] >= 0)
            (void)close(mesh->fds[r]);
    free(mesh->fds);
    mesh->fds = NULL;
}
