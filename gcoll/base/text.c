/* gcoll/base/text.c - see text.h. */
#include "gcoll/base/text.h"

#include <stdarg.h>
#include <stdio.h>

void gcoll_text_add(gcoll_text *to, const char *format, ...) {
    if (to->bytes == 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(to->text + to->used, to->bytes - to->used, format, arguments);
    va_end(arguments);
    if (written > 0)
        to->used += (size_t)written < to->bytes - to->used ? (size_t)written : to->bytes - to->used - 1;
}
