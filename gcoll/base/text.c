/* gcoll/base/text.c - appends to texts of a fixed size, and cleans texts; see text.h. */
#include "gcoll/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void gcoll_text_clean(char *text) {
    for (; *text; text++)
        *text = *text >= ' ' && *text <= '~' ? *text : '?';
}

void gcoll_text_make_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '\x7f')
            *text = '?';
}

bool gcoll_text_parse_whole(const char *text, size_t length, uint64_t most, uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(result, 10u, &result) ||
            __builtin_add_overflow(result, (uint64_t)(text[i] - '0'), &result))
            return false;
    if (length == 0 || result > most)
        return false;
    *value = result;
    return true;
}

bool gcoll_text_parse_size(const char *text, size_t length, uint64_t most, uint64_t *value) {
    static const char units[] = "KMG";
    const char *unit = length > 2 && text[length - 1] == 'i' ? strchr(units, text[length - 2]) : NULL;
    const unsigned shift = unit && *unit != '\0' ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t number = 0;
    if (!gcoll_text_parse_whole(text, shift > 0 ? length - 2 : length, most >> shift, &number))
        return false;
    *value = number << shift;
    return true;
}
