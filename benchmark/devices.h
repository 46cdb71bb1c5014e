/* benchmark/devices.h - --list-devices: what each transport sees on this machine. */
#ifndef GCOLL_BENCH_DEVICES_H
#define GCOLL_BENCH_DEVICES_H

#include <stdio.h>

/* Returns the exit status. */
int bench_list_devices(FILE *output);

#endif
