/* tools/cli_plugin.c - shared objects of algorithms, as gcoll/plan.h describes them. */
#include "tools/cli_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli_value.h"

static bool check(const char *flag, const char *path, const gcoll_plugin *table) {
    if (!table) {
        cli_complain("%s: %s has no gcoll_plugin_table; GCOLL_PLUGIN(list) of gcoll/plan.h defines it", flag,
                     path);
        return false;
    }
    if (table->version_major != GCOLL_VERSION_MAJOR || table->version_minor != GCOLL_VERSION_MINOR) {
        cli_complain("%s: %s was compiled with gcoll %u.%u; allowed is %d.%d", flag, path,
                     table->version_major, table->version_minor, GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR);
        return false;
    }
    if (!table->algorithms || !table->algorithms[0]) {
        cli_complain("%s: %s: gcoll_plugin_table lists no algorithms", flag, path);
        return false;
    }
    return true;
}

const gcoll_algorithm *const *cli_load(const char *flag, const char *path, void **object) {
    char here[4096];
    /* A bare name would be looked for in the system's folders. */
    int length = snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (length < 0 || (size_t)length >= sizeof here) {
        cli_complain("%s: has %d bytes; allowed are up to %zu", flag, length, sizeof here - 1);
        return NULL;
    }
    void *opened = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
        cli_complain("%s: %s", flag, dlerror());
        return NULL;
    }
    const gcoll_plugin *table = dlsym(opened, "gcoll_plugin_table");
    if (!check(flag, path, table)) {
        dlclose(opened);
        return NULL;
    }
    *object = opened;
    return table->algorithms;
}

void cli_unload(void *object) {
    dlclose(object);
}
