/* tools/plugin.c - algorithms from shared objects of the user's. */
#include <dlfcn.h>
#include <string.h>

#include "tools/plan_tool.h"

static bool add_all(tool_options *o, const char *path, const gcoll_plugin *table) {
    if (table->version_major != GCOLL_VERSION_MAJOR || table->version_minor != GCOLL_VERSION_MINOR) {
        cli_complain("--load: %s was compiled with gcoll %u.%u; allowed: %d.%d", path, table->version_major,
                     table->version_minor, GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR);
        return false;
    }
    if (table->algorithms == NULL || table->algorithms[0] == NULL) {
        cli_complain("--load: %s: gcoll_plugin_table lists no algorithms", path);
        return false;
    }
    for (uint32_t i = 0; table->algorithms[i] != NULL; i++)
        if (gcoll_registry_add(&o->registry, table->algorithms[i]) != GCOLL_OK) {
            cli_complain("--load: %s: %s", path, gcoll_last_error());
            return false;
        }
    return true;
}

bool tool_load(tool_options *o, const char *flag, const char *path) {
    (void)flag;
    char here[4096];
    const uint32_t most = sizeof o->plugins / sizeof o->plugins[0];
    if (o->plugin_count == most) {
        cli_complain("--load: found more than %u files", most);
        return false;
    }
    /* A bare name would be looked for in the system's folders. */
    int length = snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (length < 0 || (size_t)length >= sizeof here) {
        cli_complain("--load: found a path of %d bytes; allowed: up to %zu", length, sizeof here - 1);
        return false;
    }
    void *object = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        cli_complain("--load: %s", dlerror());
        return false;
    }
    o->plugins[o->plugin_count++] = object;
    const gcoll_plugin *table = dlsym(object, "gcoll_plugin_table");
    if (table == NULL) {
        cli_complain("--load: %s has no gcoll_plugin_table; GCOLL_PLUGIN(list) of gcoll/plan.h defines it",
                     path);
        return false;
    }
    return add_all(o, path, table);
}

void tool_unload(tool_options *o) {
    gcoll_registry_clear(&o->registry);
    while (o->plugin_count > 0)
        dlclose(o->plugins[--o->plugin_count]);
}
