/*
 * transport/shm/door.c - the port's socket: hands over memory, and wakes sleepers.
 *
 * An abstract name is random, and travels by the session alone. Anyone on the host may send to it all the
 * same. What counts is the token of a pair, and the sender's user, which the kernel tells of each datagram. A
 * datagram of anyone else only wakes this rank, and its descriptors are closed.
 *
 * A socket holds few datagrams. If it is full, its owner is awake, or wakes: so a bell need not be sent
 * again. But what a socket has sent counts against its own room until it is read, too. So one peer that reads
 * nothing can leave no room for the bells of others, which then go by the session.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gcoll/base/sha256.h"
#include "transport/shm/shm.h"

#define PREFIX "gcoll-shm-"
/* Datagrams taken at a time: no fewer than a socket holds (net.unix.max_dgram_qlen, by default 10 or 512), so
 * that what was sent before some word is found when the word has come. */
#define READ_MOST 1024

typedef struct datagram {
    uint32_t kind;
    uint32_t from;                  /* rank */
    uint8_t token[GCOLL_SHM_TOKEN]; /* of the pair, as the receiver has said it */
    uint64_t block;                 /* BLOCK: its identity */
#ifdef GCOLL_SHM_ONE_MAPPING
    void *memory; /* where the sender has mapped it */
#endif
} datagram;

/* Room for the sender's credentials and one descriptor. More of them are closed by the kernel. */
typedef union ancillary {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
} ancillary;

static socklen_t make_address(const uint8_t name[GCOLL_SHM_TOKEN], struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    char *to = address->sun_path + 1; /* behind a NUL: abstract */
    size_t used = sizeof PREFIX - 1;
    memcpy(to, PREFIX, used);
    for (uint32_t i = 0; i < GCOLL_SHM_TOKEN; i++, used += 2)
        snprintf(to + used, 3, "%02x", name[i]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + used);
}

static int open_held(gcoll_shm *shm) {
    struct sockaddr_un address;
    const socklen_t length = make_address(shm->name, &address);
    const int on = 1, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&address, length) != 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    shm->fd = fd;
    gcoll_descriptor_enter(&shm->descriptor, fd);
    return 0;
}

gcoll_status gcoll_shm_door_open(gcoll_shm *shm) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (shm->fd >= 0)
        return GCOLL_OK;
    gcoll_status status = gcoll_random_bytes(shm->name, sizeof shm->name);
    if (status != GCOLL_OK)
        return status;
    gcoll_fork_hold();
    const int error = open_held(shm);
    gcoll_fork_release();
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(error), "cannot make a socket of this host: %s",
                           gcoll_errno_text(error, text));
    status = gcoll_net_watch(shm->net, &gcoll_lane_shm, shm->fd);
    if (status != GCOLL_OK)
        gcoll_shm_door_close(shm);
    return status;
}

void gcoll_shm_door_close(gcoll_shm *shm) {
    if (shm->fd < 0)
        return;
    gcoll_fork_hold();
    gcoll_descriptor_leave(&shm->descriptor);
    close(shm->fd);
    gcoll_fork_release();
    shm->fd = -1;
}

int gcoll_shm_door_send(const gcoll_shm_pair *pair, gcoll_shm_kind kind, int fd) {
    struct sockaddr_un address;
    datagram d = {.kind = (uint32_t)kind, .from = pair->shm->rank, .block = pair->blocks.asked.id};
#ifdef GCOLL_SHM_ONE_MAPPING
    d.memory = kind == GCOLL_SHM_BLOCK ? pair->blocks.asked.start : pair->memory;
#endif
    struct iovec piece = {&d, sizeof d};
    struct msghdr header = {.msg_name = &address,
                            .msg_namelen = make_address(pair->peer.name, &address),
                            .msg_iov = &piece,
                            .msg_iovlen = 1};
    ancillary with = {0};
    memcpy(d.token, pair->peer.token, sizeof d.token);
    if (fd >= 0) {
        header.msg_control = with.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof fd);
        struct cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    ssize_t sent;
    do {
        sent = sendmsg(pair->shm->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

bool gcoll_shm_door_has_room(const gcoll_shm *shm) {
    struct pollfd own = {.fd = shm->fd, .events = POLLOUT};
    return poll(&own, 1, 0) == 1 && (own.revents & POLLOUT);
}

/* The pair that a datagram is for; NULL: none. */
static gcoll_shm_pair *find(const gcoll_shm *shm, const datagram *d) {
    const gcoll_session *session = gcoll_net_session(shm->net, d->from);
    gcoll_shm_pair *pair = session && gcoll_session_has_taken(session, &gcoll_lane_shm)
                               ? gcoll_session_lane_state(session)
                               : NULL;
    return pair && gcoll_is_same_secret(d->token, pair->own.token, sizeof d->token) ? pair : NULL;
}

/* Keeps the first descriptor of a part, and closes others: there may be room for two, for alignment's sake.
 */
static void take_descriptors(struct cmsghdr *part, int *fd) {
    for (size_t at = CMSG_LEN(0); at + sizeof *fd <= part->cmsg_len; at += sizeof *fd) {
        int each;
        memcpy(&each, (const uint8_t *)part + at, sizeof each);
        if (*fd < 0)
            *fd = each;
        else
            close(each);
    }
}

/* The credentials and the descriptor that came with a datagram. */
static void take_apart(struct msghdr *header, struct ucred *sender, int *fd) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET)
            continue;
        if (part->cmsg_type == SCM_CREDENTIALS && part->cmsg_len >= CMSG_LEN(sizeof *sender))
            memcpy(sender, CMSG_DATA(part), sizeof *sender);
        if (part->cmsg_type == SCM_RIGHTS)
            take_descriptors(part, fd);
    }
}

/* Takes one datagram. False: there is none. */
static bool read_one(gcoll_shm *shm) {
    datagram d = {0};
    struct iovec piece = {&d, sizeof d};
    ancillary with;
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = with.bytes, .msg_controllen = sizeof with.bytes};
    struct ucred sender = {.uid = UINT32_MAX, .gid = UINT32_MAX};
    int fd = -1;
    const ssize_t got = recvmsg(shm->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EINTR;
    take_apart(&header, &sender, &fd);
    gcoll_shm_pair *pair = got == (ssize_t)sizeof d && d.kind != GCOLL_SHM_BELL ? find(shm, &d) : NULL;
    void *elsewhere = NULL;
#ifdef GCOLL_SHM_ONE_MAPPING
    elsewhere = sender.pid == getpid() ? d.memory : NULL;
#endif
    if (pair && d.kind == GCOLL_SHM_BLOCK)
        gcoll_shm_take_block(pair, d.block, sender.uid, fd, elsewhere);
    else if (pair)
        gcoll_shm_on_datagram(pair, (gcoll_shm_kind)d.kind, &sender, fd, header.msg_flags & MSG_CTRUNC,
                              elsewhere);
    if (fd >= 0)
        close(fd);
    return true;
}

void gcoll_shm_door_read(gcoll_shm *shm) {
    uint32_t left = READ_MOST;
    gcoll_fork_hold(); /* no child may keep memory that comes here */
    while (left > 0 && shm->fd >= 0 && read_one(shm))
        left--;
    gcoll_fork_release();
}
