/* benchmark/host.c - facts on this machine. */
#include "benchmark/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define BYTES_PER_GIB 1073741824.0

static bool add(struct json_object *about, const char *name, const char *text) {
    struct json_object *value = json_object_new_string(text);
    return value && json_object_object_add(about, name, value) == 0;
}

/* The model that the kernel names first; empty if it names none, as on AArch64. */
static void find_model(char *model, size_t bytes) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    model[0] = '\0';
    while (file && model[0] == '\0' && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && colon)
            (void)snprintf(model, bytes, "%.*s, ", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file)
        (void)fclose(file);
}

bool bench_host_describe(struct json_object *about) {
    char model[256], text[512];
    struct utsname system;
    struct tm local;
    const time_t now = time(NULL);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    bool good = true;
    find_model(model, sizeof model);
    if (uname(&system) == 0) {
        (void)snprintf(text, sizeof text, "%s %s, %s", system.sysname, system.release, system.machine);
        good = add(about, "host", system.nodename) && add(about, "system", text);
    }
    (void)snprintf(text, sizeof text, "%s%ld processor%s", model, processors, processors == 1 ? "" : "s");
    good = good && add(about, "processor", text);
    (void)snprintf(text, sizeof text, "%.1f GiB", memory / BYTES_PER_GIB);
    good = good && add(about, "memory", text);
    if (localtime_r(&now, &local) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &local) > 0)
        good = good && add(about, "date", text);
    return good;
}
