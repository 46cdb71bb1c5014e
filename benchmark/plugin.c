/* benchmark/plugin.c - algorithms of the library and of shared objects of the user's. */
#include <stdlib.h>
#include <string.h>

#include "benchmark/plan.h"
#include "benchmark/plugin.h"
#include "tools/cli_plugin.h"

/* A shared object of algorithms. */
struct bench_plugin {
    const gcoll_algorithm *const *algorithms; /* ended by NULL */
    void *object;
    bench_plugin *next;
};

bool bench_load(const cli_flag *flag, const char *path, void *to) {
    bench_options *options = to;
    bench_plugin *plugin = calloc(1, sizeof *plugin);
    if (!plugin) {
        cli_complain("out of memory");
        return false;
    }
    plugin->algorithms = cli_load(flag->name, path, &plugin->object);
    if (!plugin->algorithms) {
        free(plugin);
        return false;
    }
    bench_plugin **last = &options->plugins;
    while (*last)
        last = &(*last)->next;
    *last = plugin;
    return true;
}

void bench_unload(bench_options *options) {
    while (options->plugins) {
        bench_plugin *plugin = options->plugins;
        options->plugins = plugin->next;
        cli_unload(plugin->object);
        free(plugin);
    }
}

bool bench_register(const bench_options *options, gcoll_context *context) {
    for (const bench_plugin *plugin = options->plugins; plugin; plugin = plugin->next) {
        for (const gcoll_algorithm *const *a = plugin->algorithms; *a; a++) {
            if (gcoll_context_register(context, *a) != GCOLL_OK) {
                cli_complain("--load: %s", gcoll_last_error());
                return false;
            }
        }
    }
    const gcoll_algorithm *planned = bench_plan_algorithm(options);
    if (planned && gcoll_context_register(context, planned) != GCOLL_OK) {
        cli_complain("--plan: %s", gcoll_last_error());
        return false;
    }
    return true;
}

/* The index-th of the plugins' algorithms for a collective. */
static const gcoll_algorithm *added_at(const bench_options *options, gcoll_collective collective,
                                       uint32_t index) {
    for (const bench_plugin *plugin = options->plugins; plugin; plugin = plugin->next) {
        for (const gcoll_algorithm *const *a = plugin->algorithms; *a; a++)
            if ((*a)->collective == collective && index-- == 0)
                return *a;
    }
    const gcoll_algorithm *planned = bench_plan_algorithm(options);
    return planned && planned->collective == collective && index == 0 ? planned : NULL;
}

const char *bench_algorithm_at(const bench_options *options, gcoll_collective collective, uint32_t index) {
    const char *name = NULL;
    const char *summary = NULL;
    uint32_t own = 0;
    while (gcoll_algorithm_at(gcoll_collective_name(collective), own, &name, &summary) == GCOLL_OK)
        if (own++ == index)
            return name;
    const gcoll_algorithm *added = added_at(options, collective, index - own);
    return added ? added->name : NULL;
}

/* Whether the text is this name, perhaps with options. */
static bool names(const char *text, const char *name) {
    const size_t length = strcspn(text, ":");
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static const gcoll_algorithm *added_by_name(const bench_options *options, gcoll_collective collective,
                                            const char *text) {
    const gcoll_algorithm *added = NULL;
    for (uint32_t i = 0; (added = added_at(options, collective, i)); i++)
        if (names(text, added->name))
            return added;
    return NULL;
}

bool bench_algorithm_known(const bench_options *options, gcoll_collective collective, const char *text) {
    return added_by_name(options, collective, text) || /* its options are checked when it is called */
           gcoll_algorithm_check(gcoll_collective_name(collective), text) == GCOLL_OK;
}

bool bench_uses_arrival(const bench_options *options, gcoll_collective collective, const char *text) {
    const gcoll_algorithm *added = added_by_name(options, collective, text);
    int uses = 0;
    if (added)
        return added->uses_arrival;
    return gcoll_algorithm_uses_arrival(gcoll_collective_name(collective), text, &uses) == GCOLL_OK && uses;
}
