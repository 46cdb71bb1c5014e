/* tools/cli_list.h - lists, sweeps and ranges of sizes on command lines. */
#ifndef GCOLL_CLI_LIST_H
#define GCOLL_CLI_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cli_list {
    uint64_t *values; /* freed by the caller */
    size_t count;
} cli_list;

/* Joined by commas: sizes, sweeps "4:64Mi:x4" and "0:1Ki:+256", ranges "1-64", each number from least to
 * most. Replaces *list. False: it has been said what is wrong. */
bool cli_parse_list(const char *flag, const char *text, uint64_t least, uint64_t most, cli_list *list);

#ifdef __cplusplus
}
#endif

#endif
