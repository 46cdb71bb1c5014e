/* gcoll/base/text.h - a text that is put together in memory of a given size, and cut there. */
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

#endif
