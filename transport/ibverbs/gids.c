/*
 * transport/ibverbs/gids.c - reads a port's table of GIDs, by one call of libibverbs, or, if that is too old,
 * from /sys/class/infiniband.
 *
 * A GID of RoCE is an IP address. Each address appears once for each RoCE version; only RoCE v2 can be
 * routed, and all current devices support it. The index of a GID depends on the order in which addresses were
 * added to the interface, so it is looked up and never assumed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/device.h"

#define SYSFS      "/sys/class/infiniband"
#define PATH_BYTES 256
#define LINE_BYTES 64
/* An IPv4 address within an IPv6 one: ::ffff:10.0.0.7 */
#define MAPPED_BYTES 12

static bool read_line(const char *device, uint32_t port, const char *what, int index, char *line) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, SYSFS "/%s/ports/%u/%s/%d", device, port, what, index);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool found = fgets(line, LINE_BYTES, file); /* fails for an unused entry */
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    return found;
}

static bool is_zero(const union ibv_gid *gid) {
    static const uint8_t zero[sizeof gid->raw];
    return memcmp(gid->raw, zero, sizeof zero) == 0;
}

static void find_address(gcoll_ib_gid *gid) {
    static const uint8_t mapped[MAPPED_BYTES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    gcoll_host_address *address = &gid->address;
    memset(address, 0, sizeof *address);
    if (memcmp(gid->gid.raw, mapped, sizeof mapped) == 0) {
        struct sockaddr_in *where = (struct sockaddr_in *)&address->where;
        where->sin_family = AF_INET;
        memcpy(&where->sin_addr, gid->gid.raw + MAPPED_BYTES, sizeof where->sin_addr);
    } else {
        struct sockaddr_in6 *where = (struct sockaddr_in6 *)&address->where;
        where->sin6_family = AF_INET6;
        memcpy(&where->sin6_addr, gid->gid.raw, sizeof where->sin6_addr);
    }
}

static bool read_sysfs(const char *device, uint32_t port, int index, gcoll_ib_gid *gid) {
    memset(gid, 0, sizeof *gid);
    gid->index = index;
    char line[LINE_BYTES];
    if (!read_line(device, port, "gids", index, line) || inet_pton(AF_INET6, line, gid->gid.raw) != 1 ||
        is_zero(&gid->gid))
        return false;
    gid->roce_v2 = read_line(device, port, "gid_attrs/types", index, line) && strcmp(line, "RoCE v2") == 0;
    find_address(gid);
    return true;
}

static uint32_t read_all_sysfs(const char *device, uint32_t port, uint32_t length, gcoll_ib_gid *gids) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < length; i++)
        count += read_sysfs(device, port, (int)i, &gids[count]) ? 1 : 0;
    return count;
}

static uint32_t read_table(const gcoll_verbs *verbs, struct ibv_context *context, uint32_t port,
                           uint32_t length, gcoll_ib_gid *gids) {
    struct ibv_gid_entry *entries = calloc(length > 0 ? length : 1, sizeof *entries);
    ssize_t found = -1;
    uint32_t count = 0;
    if (entries)
        found = verbs->query_gid_table(context, entries, length, 0, sizeof *entries);
    for (ssize_t i = 0; i < found; i++) {
        if (entries[i].port_num == port && !is_zero(&entries[i].gid)) {
            gids[count] = (gcoll_ib_gid){.index = (int)entries[i].gid_index,
                                         .gid = entries[i].gid,
                                         .roce_v2 = entries[i].gid_type == IBV_GID_TYPE_ROCE_V2};
            find_address(&gids[count]);
            count++;
        }
    }
    free(entries);
    return count;
}

uint32_t gcoll_ib_read_gids(const gcoll_verbs *verbs, struct ibv_context *context, const char *device,
                            uint32_t port, uint32_t length, gcoll_ib_gid **gids) {
    uint32_t count = 0;
    *gids = calloc(length > 0 ? length : 1, sizeof **gids);
    if (*gids && length > 0 && verbs->query_gid_table)
        count = read_table(verbs, context, port, length, *gids);
    if (*gids && count == 0)
        count = read_all_sysfs(device, port, length, *gids);
    return count;
}
