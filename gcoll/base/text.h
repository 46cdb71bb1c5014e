/* gcoll/base/text.h - texts: appends to one of a fixed size, cleans one, reads numbers and sizes. */
#ifndef GCOLL_BASE_TEXT_H
#define GCOLL_BASE_TEXT_H

#include <stddef.h>

#include "gcoll/base/base.h"

typedef struct gcoll_text {
    char *text;
    size_t bytes; /* with the terminator; 0: nothing is written */
    size_t used;  /* without */
} gcoll_text;

void gcoll_text_add(gcoll_text *to, const char *format, ...) GCOLL_PRINTF(2, 3);

/* Replaces each byte that is not printable ASCII by '?', before a text from outside goes to a message or a
 * log. */
void gcoll_text_clean(char *text);

/* A text that callers read as one line: control characters become '?'. Other bytes, as those of a path in
 * UTF-8, stay. */
void gcoll_text_make_line(char *text);

/* A number of decimal digits, with nothing else in the `length` bytes. False: it is none, or more than
 * `most`. */
bool gcoll_text_parse_whole(const char *text, size_t length, uint64_t most, uint64_t *value);

/* The same, with Ki, Mi or Gi (times 2^10, 2^20, 2^30) or nothing behind the digits. */
bool gcoll_text_parse_size(const char *text, size_t length, uint64_t most, uint64_t *value);

#endif
