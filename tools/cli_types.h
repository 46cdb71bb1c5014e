/* tools/cli_types.h - the library's own words on command lines: types, operations, and where results are the
 * same. */
#ifndef GCOLL_CLI_TYPES_H
#define GCOLL_CLI_TYPES_H

#include "tools/cli.h"

/* A gcoll_type. */
cli_reader cli_read_type;
/* A gcoll_op, built-in. */
cli_reader cli_read_op;
/* "ranks", "runs", "nowhere": a gcoll_same. */
extern const cli_word cli_same_words[];
/* "any", "pairs", "left": a gcoll_order. */
extern const cli_word cli_order_words[];

#endif
