/* tools/commands.h - the subcommands of gcoll_plan, a file each. They return an exit status and have said
 * what was wrong. */
#ifndef GCOLL_TOOL_COMMANDS_H
#define GCOLL_TOOL_COMMANDS_H

#include "tools/options.h"

typedef struct tool_command {
    const char *name;
    int (*run)(const tool_options *options);
    const char *summary;
    const char *example;
} tool_command;

/* The index of a command in this table is its bit in the flags' masks. */
extern const tool_command tool_commands[];
extern const uint32_t tool_command_count;

int tool_list(const tool_options *options);
int tool_verify(const tool_options *options);
int tool_stats(const tool_options *options);
int tool_show(const tool_options *options);
int tool_draw(const tool_options *options);
int tool_simulate(const tool_options *options);
int tool_compare(const tool_options *options);
int tool_explain(const tool_options *options);
int tool_arrival(const tool_options *options);
int tool_order(const tool_options *options);

#endif
