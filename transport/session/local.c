/*
 * transport/session/local.c - congestion control of connections that never leave the host.
 *
 * If the system's congestion control is BBR, the kernel paces the packets of each connection by a model of
 * the network. The loopback interface has no network to model, and pacing costs half the bandwidth or more.
 * So both ends of a connection within a host use Reno, which sends at once, is in every kernel, and may be
 * chosen by any user. All other connections keep the system's choice.
 *
 * Reno must be chosen before the connection exists: a socket that was once paced stays paced. The connecting
 * side knows from the peer's address whether it is on this host. The accepting side knows only afterwards. So
 * the listener uses Reno, and a connection from another host gets the system's choice back, which takes
 * effect at once in that direction. Failures only cost speed, and are ignored.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/session/connect.h"

static const char unpaced[] = "reno";

static bool get_congestion_control(int fd, char name[GCOLL_NET_CONTROL_BYTES]) {
    socklen_t length = GCOLL_NET_CONTROL_BYTES;
    memset(name, 0, GCOLL_NET_CONTROL_BYTES);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0;
}

static bool is_paced(const char *name) {
    return strncmp(name, "bbr", 3) == 0; /* and its later versions */
}

void gcoll_net_local_listen(gcoll_net *net, int fd) {
    net->has_control = get_congestion_control(fd, net->control) && is_paced(net->control) &&
                       setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1) == 0;
}

bool gcoll_net_is_local(int fd) {
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

void gcoll_net_local_accepted(const gcoll_net *net, int fd) {
    if (net->has_control && !gcoll_net_is_local(fd))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, net->control, (socklen_t)strlen(net->control));
}

void gcoll_net_local_dial(int fd) {
    char name[GCOLL_NET_CONTROL_BYTES];
    if (get_congestion_control(fd, name) && is_paced(name))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
}
