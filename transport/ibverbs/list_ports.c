/* transport/ibverbs/list_ports.c - lists devices, ports and GIDs for gcoll_devices. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/device.h"

typedef struct listing {
    gcoll_verbs verbs;
    gcoll_device_fn fn;
    void *arg;
} listing;

static gcoll_device nothing(const char *name, const char *state) {
    return (gcoll_device){
        .transport = "ibverbs", .name = name, .gid_index = -1, .address = "", .kind = "", .state = state};
}

/* The speed of one lane, by the codes of IBTA 14.2.5.6; 0: unknown. */
static uint64_t lane_bits(uint32_t speed) {
    static const struct {
        uint32_t code;
        uint64_t megabits;
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};

    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        if (speeds[i].code == speed)
            return speeds[i].megabits * UINT64_C(1000000);
    return 0;
}

static uint32_t lanes(uint32_t width) {
    static const struct { uint32_t code, lanes; } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i].code == width)
            return widths[i].lanes;
    return 0;
}

/* Reports one device for each address of the port, or one device if it has none. */
static void show_port(const listing *l, struct ibv_context *context, const char *name, uint32_t number,
                      const struct ibv_port_attr *port) {
    const bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    gcoll_device device = nothing(name, l->verbs.port_state_str(port->state));
    gcoll_ib_gid *gids;
    uint32_t count = gcoll_ib_read_gids(&l->verbs, context, name, number, (uint32_t)port->gid_tbl_len, &gids);
    device.port = number;
    device.kind = ethernet ? "" : "InfiniBand";
    device.bits_per_second = lane_bits(port->active_speed) * lanes(port->active_width);
    device.mtu = gcoll_ib_mtu_bytes(port->active_mtu);
    if (count == 0)
        l->fn(l->arg, &device);
    for (uint32_t i = 0; i < count; i++) {
        char address[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address_text(&gids[i].address, address, sizeof address);
        device.gid_index = gids[i].index;
        device.address = address;
        if (ethernet)
            device.kind = gids[i].roce_v2 ? "RoCE v2" : "RoCE v1";
        l->fn(l->arg, &device);
    }
    free(gids);
}

static void show_device(const listing *l, struct ibv_device *device) {
    const char *name = l->verbs.get_device_name(device);
    struct ibv_context *context = l->verbs.open_device(device);
    gcoll_device broken = nothing(name, "cannot be opened");
    if (!context) {
        broken.state = strerror(errno);
        l->fn(l->arg, &broken);
        return;
    }
    struct ibv_device_attr attributes;
    if (l->verbs.query_device(context, &attributes) != 0) {
        l->fn(l->arg, &broken);
        attributes.phys_port_cnt = 0;
    }
    for (uint32_t port = 1; port <= attributes.phys_port_cnt; port++) {
        struct ibv_port_attr found;
        if (gcoll_verbs_query_port(&l->verbs, context, (uint8_t)port, &found) == 0)
            show_port(l, context, name, port, &found);
    }
    l->verbs.close_device(context);
}

void gcoll_ib_list(gcoll_device_fn fn, void *arg) {
    listing l = {.fn = fn, .arg = arg};
    int count = 0;
    struct ibv_device **list = NULL;
    const char *missing = "this host has no device";
    if (gcoll_verbs_load(&l.verbs) != GCOLL_OK)
        missing = gcoll_last_error();
    else
        list = l.verbs.get_device_list(&count);
    if (count == 0) {
        gcoll_device none = nothing("", missing);
        fn(arg, &none);
    }
    for (int i = 0; list && i < count; i++)
        show_device(&l, list[i]);
    if (list)
        l.verbs.free_device_list(list);
}
