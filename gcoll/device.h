/* gcoll/device.h - what each transport sees on this machine: interfaces, devices, ports, addresses. */
#ifndef GCOLL_DEVICE_H
#define GCOLL_DEVICE_H

#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

/* One address of one port. Texts are never NULL, and hold during the call that they are passed to. */
typedef struct gcoll_device {
    const char *transport; /* "tcp", "ibverbs" */
    const char *name;  /* of an interface ("eth0") or device ("mlx5_0"); "" if the transport has none here */
    uint32_t port;     /* of a device, from 1; 0 for an interface */
    int32_t gid_index; /* of the address in the port's table; -1 for an interface */
    const char *address; /* "10.0.0.7", "fe80::1%eth0"; "" if it has none */
    const char *kind;    /* "loopback", "RoCE v2", "RoCE v1", "InfiniBand"; "" if not known */
    const char *state;   /* "up", "active", "down", ...; where name is "", why the transport cannot be used */
    uint64_t bits_per_second; /* 0: not known */
    uint32_t mtu;             /* bytes; 0: not known */
} gcoll_device;

typedef void (*gcoll_device_fn)(void *arg, const gcoll_device *device);

/* Calls fn for each, by transport, in the system's order. GCOLL_ERR_INVALID if fn is NULL. */
GCOLL_API gcoll_status gcoll_devices(gcoll_device_fn fn, void *arg);

GCOLL_END_DECLS

#endif
