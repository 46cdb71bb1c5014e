/* tools/cli_types.c - the library's own words on command lines: types, operations, and where results are the
 * same. */
#include "tools/cli_types.h"

#include "gcoll/plan.h"

const cli_word cli_same_words[] = {
    {"ranks", GCOLL_SAME_ON_RANKS}, {"runs", GCOLL_SAME_IN_RUNS}, {"nowhere", GCOLL_SAME_NOWHERE}, {NULL, 0}};

const cli_word cli_order_words[] = {
    {"any", GCOLL_ORDER_ANY}, {"pairs", GCOLL_ORDER_PAIRS}, {"left", GCOLL_ORDER_LEFT}, {NULL, 0}};

bool cli_read_type(const cli_flag *flag, const char *text, void *to) {
    if (gcoll_type_parse(text, to) != GCOLL_OK) {
        cli_complain("%s: %s", flag->name, gcoll_last_error());
        return false;
    }
    return true;
}

bool cli_read_op(const cli_flag *flag, const char *text, void *to) {
    gcoll_op op;
    if (gcoll_op_parse(text, &op) != GCOLL_OK) {
        cli_complain("%s: %s", flag->name, gcoll_last_error());
        return false;
    }
    if (op == GCOLL_USER)
        return cli_bad(flag->name, text, "a built-in operation; one of your own needs a function");
    *(gcoll_op *)to = op;
    return true;
}
