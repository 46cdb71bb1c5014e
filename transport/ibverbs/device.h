/*
 * transport/ibverbs/device.h - devices, ports and GIDs: listing them, and the chosen ones.
 */
#ifndef GCOLL_IB_DEVICE_H
#define GCOLL_IB_DEVICE_H

#include "gcoll/base/base.h"
#include "gcoll/device.h"
#include "transport/address.h"
#include "transport/ibverbs/verbs.h"

/* The chosen device, port and GID, with the device's limits. */
typedef struct gcoll_ib_place {
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    bool ethernet; /* RoCE: addressed by GIDs; else InfiniBand, by LIDs */
    int gid_index;
    union ibv_gid gid;
    uint16_t lid;
    enum ibv_mtu mtu;
    uint16_t pkey_index;
    uint32_t message_max;
} gcoll_ib_place;

/* gids.c */
typedef struct gcoll_ib_gid {
    int index;
    union ibv_gid gid;
    bool roce_v2;
    gcoll_host_address address; /* the address in the GID; IPv4 if it is mapped */
} gcoll_ib_gid;
/* Reads the used entries of a port's table of `length` GIDs. Returns their number; the caller frees *gids. */
uint32_t gcoll_ib_read_gids(const gcoll_verbs *verbs, struct ibv_context *context, const char *device,
                            uint32_t port, uint32_t length, gcoll_ib_gid **gids);

/* list_ports.c */
void gcoll_ib_list(gcoll_device_fn fn, void *arg);

/* device.c */
uint32_t gcoll_ib_mtu_bytes(enum ibv_mtu mtu);

#endif
