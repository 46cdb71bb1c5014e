/* transport/session/list_interfaces.c - lists the interfaces that are up for gcoll_devices. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "transport/address.h"
#include "transport/session/connect.h"

#define BITS_PER_MEGABIT UINT64_C(1000000)

/* Reads a number that the kernel reports about an interface; 0 if there is none. */
static uint64_t read_number(const char *interface, const char *what) {
    char path[128];
    int64_t value = 0;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/%s", interface, what);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%" SCNd64, &value) != 1 || value < 0)
        value = 0;
    fclose(file);
    return (uint64_t)value;
}

static void show(const uv_interface_address_t *each, gcoll_device_fn fn, void *arg) {
    gcoll_host_address found;
    char address[GCOLL_ADDRESS_NAME_MAX];
    gcoll_device device = {.transport = "tcp",
                           .name = each->name,
                           .gid_index = -1,
                           .address = address,
                           .kind = each->is_internal ? "loopback" : "",
                           .state = "up"};
    gcoll_net_convert_address(each, &found);
    gcoll_host_address_text(&found, address, sizeof address);
    device.bits_per_second = read_number(each->name, "speed") * BITS_PER_MEGABIT;
    device.mtu = (uint32_t)read_number(each->name, "mtu");
    fn(arg, &device);
}

void gcoll_net_list(gcoll_device_fn fn, void *arg) {
    uv_interface_address_t *found;
    int count;
    int error = uv_interface_addresses(&found, &count);
    if (error != 0) {
        gcoll_device none = {.transport = "tcp",
                             .name = "",
                             .gid_index = -1,
                             .address = "",
                             .kind = "",
                             .state = uv_strerror(error)};
        fn(arg, &none);
        return;
    }
    for (int i = 0; i < count; i++)
        show(&found[i], fn, arg);
    uv_free_interface_addresses(found, count);
}
