/* tools/plugin.c - algorithms from shared objects of the user's. */
#include "tools/plan_tool.h"

bool tool_load(tool_options *o, const char *flag, const char *path) {
    const uint32_t most = sizeof o->plugins / sizeof o->plugins[0];
    if (o->plugin_count == most) {
        cli_complain("%s: found more than %u files", flag, most);
        return false;
    }
    const gcoll_algorithm *const *algorithms = cli_load(flag, path, &o->plugins[o->plugin_count]);
    if (algorithms == NULL)
        return false;
    o->plugin_count++;
    for (; *algorithms != NULL; algorithms++)
        if (gcoll_registry_add(&o->registry, *algorithms) != GCOLL_OK) {
            cli_complain("%s: %s: %s", flag, path, gcoll_last_error());
            return false;
        }
    return true;
}

void tool_unload(tool_options *o) {
    gcoll_registry_clear(&o->registry);
    while (o->plugin_count > 0)
        cli_unload(o->plugins[--o->plugin_count]);
}
