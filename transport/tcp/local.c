/*
 * transport/tcp/local.c - congestion control of connections that never leave the host.
 *
 * Where the system's congestion control is BBR, the kernel sends each connection's packets at the times that
 * a model of the network asks for. On the way through the loopback interface there is no network to model,
 * and the waiting costs half the bandwidth and more. So both ends of a connection within a host use Reno
 * instead, which every kernel has, which any user may choose, and which sends at once. All other connections
 * keep what the system's administrator wanted.
 *
 * It must be chosen before the connection exists: a socket that was once paced stays so. Who connects knows
 * from the peer's address whether it is on this host. Who accepts does not know until afterwards; so the
 * listener has Reno, and a connection from elsewhere is given back the system's choice, which takes effect at
 * once in that direction. Failures matter little, and are ignored.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/tcp/connect.h"

static const char unpaced[] = "reno";

static bool get_congestion_control(int fd, char name[GCOLL_TCP_CONTROL_BYTES]) {
    socklen_t length = GCOLL_TCP_CONTROL_BYTES;
    memset(name, 0, GCOLL_TCP_CONTROL_BYTES);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0;
}

static bool is_paced(const char *name) {
    return strncmp(name, "bbr", 3) == 0; /* and its later versions */
}

void gcoll_tcp_local_listen(gcoll_tcp *tcp, int fd) {
    tcp->has_control = get_congestion_control(fd, tcp->control) && is_paced(tcp->control) &&
                       setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1) == 0;
}

/* Whether both ends have the same address. */
static bool is_local(int fd) {
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_bytes) != 0 || here.ss_family != there.ss_family)
        return false;
    if (here.ss_family == AF_INET)
        return ((struct sockaddr_in *)&here)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&there)->sin_addr.s_addr;
    return memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr, &((struct sockaddr_in6 *)&there)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

void gcoll_tcp_local_accepted(const gcoll_tcp *tcp, int fd) {
    if (tcp->has_control && !is_local(fd))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, tcp->control, (socklen_t)strlen(tcp->control));
}

void gcoll_tcp_local_dial(int fd) {
    char name[GCOLL_TCP_CONTROL_BYTES];
    if (get_congestion_control(fd, name) && is_paced(name))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
}
