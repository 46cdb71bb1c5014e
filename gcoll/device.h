/* gcoll/device.h - lists the transports, their options, and the network interfaces and RDMA devices that they
 * can use on this machine. */
#ifndef GCOLL_DEVICE_H
#define GCOLL_DEVICE_H

#include <stdint.h>

#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

/* Gives the name of the index-th transport, for options.transport. The first is the one that "auto" falls
 * back on. The text is constant. GCOLL_ERR_NOT_FOUND past the end. GCOLL_ERR_INVALID if name is NULL. A
 * transport is listed even if this build or machine cannot use it; gcoll_devices says why not. */
GCOLL_API gcoll_status gcoll_transport_at(uint32_t index, const char **name);

/* Gives the name of the transport that options.transport = text takes in this process: NULL and "auto" leave
 * it to the environment variable GCOLL_TRANSPORT, and then to the library. The name is constant. Errors are
 * those of gcoll_context_create: INVALID says what is allowed, UNSUPPORTED that the text names several. */
GCOLL_API gcoll_status gcoll_transport_parse(const char *text, const char **name);

/* An option of a transport, as in options.transport = "ibverbs:device=mlx5_0:gid=3". Texts are never NULL,
 * and valid only during the callback. */
typedef struct gcoll_transport_option {
    const char *name;    /* "gid" */
    const char *allowed; /* "0 to 255, and -1 for the default" */
    const char *initial; /* the default: "0", "the port's" */
    const char *help;    /* "index in the port's table of GIDs" */
    const char
        *variable;     /* environment variable that counts if the option is not given; "" if there is none */
    const char *field; /* field of the transport's struct of options, such as gcoll_ibverbs_options; "" */
} gcoll_transport_option;

/* A function that gcoll_transport_options calls. arg: as it was given there. option: one of them. */
typedef void (*gcoll_transport_option_fn)(void *arg, const gcoll_transport_option *option);

/* Calls fn once for each option of a transport. arg is passed to fn. GCOLL_ERR_INVALID if fn or transport is
 * NULL. GCOLL_ERR_NOT_FOUND if there is no such transport. */
GCOLL_API gcoll_status gcoll_transport_options(const char *transport, gcoll_transport_option_fn fn,
                                               void *arg);

/* One address of an interface, or of a port of a device. Texts are never NULL, and valid only during the
 * callback. */
typedef struct gcoll_device {
    const char *transport; /* "tcp", "ibverbs" */
    const char *name;      /* interface ("eth0") or device ("mlx5_0"); "" if the transport has none here */
    uint32_t port;         /* port of a device, from 1; 0 for an interface */
    int32_t gid_index;     /* index of the address in the port's GID table; -1 for an interface */
    const char *address;   /* "10.0.0.7", "fe80::1%eth0"; "" if there is none */
    const char *kind;      /* "loopback", "RoCE v2", "RoCE v1", "InfiniBand"; "" if unknown */
    const char
        *state; /* "up", "active", "down", ...; if name is "", the reason why the transport is unusable */
    uint64_t bits_per_second; /* 0: unknown */
    uint32_t mtu;             /* bytes; 0: unknown */
} gcoll_device;

/* A function that gcoll_devices calls. arg: as it was given there. device: one address. */
typedef void (*gcoll_device_fn)(void *arg, const gcoll_device *device);

/* Calls fn once for each address, transport by transport, in the order of the system. arg is passed to fn.
 * GCOLL_ERR_INVALID if fn is NULL. */
GCOLL_API gcoll_status gcoll_devices(gcoll_device_fn fn, void *arg);

GCOLL_END_DECLS

#endif
