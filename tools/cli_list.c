/* tools/cli_list.c - lists, sweeps and ranges of sizes. */
#include "tools/cli_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli_value.h"

#define MOST_VALUES 4096u /* a longer sweep is a mistake */

typedef struct parser {
    const char *flag;
    uint64_t least, most;
    cli_list list;
} parser;

static bool append(parser *p, uint64_t value) {
    if (p->list.count == MOST_VALUES) {
        cli_complain("%s: more than %u values", p->flag, MOST_VALUES);
        return false;
    }
    if (value < p->least || value > p->most) {
        cli_complain("%s: has %" PRIu64 "; allowed is %" PRIu64 " to %" PRIu64, p->flag, value, p->least,
                     p->most);
        return false;
    }
    p->list.values[p->list.count++] = value;
    return true;
}

static bool bad_part(const parser *p, const char *part, size_t length) {
    cli_complain(
        "%s: is '%.*s'; allowed is a size (64, 4Ki, 1Mi, 2Gi), a sweep by a factor (4:64Mi:x4) or by "
        "a step (0:1Ki:+256), a range (1-64), and lists of them (4,1Ki,4Mi)",
        p->flag, (int)length, part);
    return false;
}

/* "first:last:xFACTOR" or "first:last:+STEP"; `part` is known to hold a colon. */
static bool sweep(parser *p, const char *part, size_t length) {
    const char *end = part + length;
    const char *colon = memchr(part, ':', length);
    const char *second = memchr(colon + 1, ':', (size_t)(end - colon - 1));
    uint64_t first;
    uint64_t last;
    uint64_t by;
    if (!second || end - second < 3 || (second[1] != 'x' && second[1] != '+') ||
        !cli_parse_size(part, (size_t)(colon - part), &first) ||
        !cli_parse_size(colon + 1, (size_t)(second - colon - 1), &last) ||
        !cli_parse_size(second + 2, (size_t)(end - second - 2), &by))
        return bad_part(p, part, length);
    bool multiply = second[1] == 'x';
    if (first > last || (multiply ? by < 2 || first == 0 : by == 0)) {
        cli_complain("%s: the sweep '%.*s' does not advance; allowed are first <= last, a factor of at least "
                     "2 from a size that is not 0, or a step that is not 0",
                     p->flag, (int)length, part);
        return false;
    }
    for (uint64_t value = first; value <= last;) {
        if (!append(p, value))
            return false;
        bool over =
            multiply ? __builtin_mul_overflow(value, by, &value) : __builtin_add_overflow(value, by, &value);
        if (over)
            break;
    }
    return true;
}

/* "first-last"; `part` is known to hold a dash. */
static bool range(parser *p, const char *part, size_t length) {
    const char *dash = memchr(part, '-', length);
    uint64_t first;
    uint64_t last;
    if (!cli_parse_size(part, (size_t)(dash - part), &first) ||
        !cli_parse_size(dash + 1, length - (size_t)(dash + 1 - part), &last) || first > last)
        return bad_part(p, part, length);
    for (uint64_t value = first;; value++) {
        if (!append(p, value))
            return false;
        if (value == last)
            return true;
    }
}

static bool parse_part(parser *p, const char *part, size_t length) {
    uint64_t value;
    if (memchr(part, ':', length))
        return sweep(p, part, length);
    if (memchr(part, '-', length))
        return range(p, part, length);
    return cli_parse_size(part, length, &value) ? append(p, value) : bad_part(p, part, length);
}

bool cli_parse_list(const char *flag, const char *text, uint64_t least, uint64_t most, cli_list *list) {
    parser p = {flag, least, most, {calloc(MOST_VALUES, sizeof *p.list.values), 0}};
    if (!p.list.values) {
        cli_complain("out of memory");
        return false;
    }
    const char *part = text;
    for (;;) {
        size_t length = strcspn(part, ",");
        if (!parse_part(&p, part, length)) {
            free(p.list.values);
            return false;
        }
        if (part[length] == '\0')
            break;
        part += length + 1;
    }
    free(list->values);
    *list = p.list;
    return true;
}
