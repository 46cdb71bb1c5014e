/* gcoll/base/text.h - text functions: append to a text of fixed size, clean a text, parse numbers and
 * sizes. */
#ifndef GCOLL_BASE_TEXT_H
#define GCOLL_BASE_TEXT_H

#include <stddef.h>

#include "gcoll/base/base.h"

typedef struct gcoll_text {
    char *text;
    size_t bytes; /* size including the terminator; 0: nothing is written */
    size_t used;  /* length without the terminator */
} gcoll_text;

void gcoll_text_add(gcoll_text *to, const char *format, ...) GCOLL_PRINTF(2, 3);

/* Replaces each byte that is not printable ASCII by '?'. For texts from outside, before they go to a
 * message or a log. */
void gcoll_text_clean(char *text);

/* Replaces control characters by '?', so that the text is one line. Other bytes stay, such as those of a
 * path in UTF-8. */
void gcoll_text_make_line(char *text);

/* Parses decimal digits that fill all `length` bytes. False if the text is not such a number, or the
 * number is more than `most`. */
bool gcoll_text_parse_whole(const char *text, size_t length, uint64_t most, uint64_t *value);

/* As gcoll_text_parse_whole, with an optional Ki, Mi or Gi (times 2^10, 2^20, 2^30) behind the digits. */
bool gcoll_text_parse_size(const char *text, size_t length, uint64_t most, uint64_t *value);

#endif
