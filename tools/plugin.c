/* tools/plugin.c - algorithms from shared objects of the user's. */
#include "tools/plugin.h"
#include "tools/cli_plugin.h"

bool tool_load(const cli_flag *flag, const char *path, void *options) {
    tool_options *o = options;
    const uint32_t most = sizeof o->plugins / sizeof o->plugins[0];
    if (o->plugin_count == most) {
        cli_complain("%s: found more than %u files", flag->name, most);
        return false;
    }
    const gcoll_algorithm *const *algorithms = cli_load(flag->name, path, &o->plugins[o->plugin_count]);
    if (!algorithms)
        return false;
    o->plugin_count++;
    for (; *algorithms; algorithms++)
        if (gcoll_registry_add(&o->registry, *algorithms) != GCOLL_OK) {
            cli_complain("%s: %s: %s", flag->name, path, gcoll_last_error());
            return false;
        }
    return true;
}

void tool_unload(tool_options *o) {
    gcoll_registry_clear(&o->registry);
    while (o->plugin_count > 0)
        cli_unload(o->plugins[--o->plugin_count]);
}
