/* benchmark/devices.c - --list-devices: what each transport sees on this machine. */
#include <inttypes.h>
#include <string.h>

#include "benchmark/devices.h"
#include "benchmark/options.h"

#define BITS_PER_GIGABIT 1e9

typedef struct listing {
    FILE *output;
    char transport[32]; /* of the line before */
} listing;

static void print(void *arg, const gcoll_device *device) {
    listing *l = arg;
    char name[96], speed[32] = "", mtu[16] = "", gid[16] = "";
    if (strcmp(l->transport, device->transport) != 0) {
        (void)snprintf(l->transport, sizeof l->transport, "%s", device->transport);
        (void)fprintf(l->output, "%s\n", device->transport);
    }
    if (device->name[0] == '\0') {
        (void)fprintf(l->output, "  none: %s\n", device->state);
        return;
    }
    (void)snprintf(name, sizeof name, "%s", device->name);
    if (device->port > 0)
        (void)snprintf(name, sizeof name, "%s port %u", device->name, device->port);
    if (device->gid_index >= 0)
        (void)snprintf(gid, sizeof gid, "GID %" PRId32, device->gid_index);
    if (device->bits_per_second > 0) {
        (void)snprintf(speed, sizeof speed, "%.3g Gbit/s",
                       (double)device->bits_per_second / BITS_PER_GIGABIT);
    }
    if (device->mtu > 0)
        (void)snprintf(mtu, sizeof mtu, "MTU %" PRIu32, device->mtu);
    (void)fprintf(l->output, "  %-16s %-8s %-40s %-10s %-12s %-9s %s\n", name, gid, device->address,
                  device->kind, speed, mtu, device->state);
}

int bench_list_devices(FILE *output) {
    listing l = {.output = output};
    if (gcoll_devices(print, &l) != GCOLL_OK) {
        cli_complain("%s", gcoll_last_error());
        return BENCH_FAILED;
    }
    return BENCH_OK;
}
