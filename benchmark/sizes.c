/* benchmark/sizes.c - the text of --bytes: lists and sweeps. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MAX_SIZES 4096u /* a sweep that is longer is a slip of the pen */

bool bench_parse_size(const char *text, size_t length, uint64_t *bytes) {
    static const struct {
        const char *suffix;
        unsigned shift;
    } suffixes[] = {{"", 0}, {"Ki", 10}, {"Mi", 20}, {"Gi", 30}};
    size_t digits = 0;
    uint64_t value = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9') {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[digits] - '0'), &value)) {
            return false;
        }
        digits++;
    }
    if (digits == 0) {
        return false;
    }
    for (size_t s = 0; s < sizeof suffixes / sizeof suffixes[0]; s++) {
        const char *suffix = suffixes[s].suffix;
        if (length - digits == strlen(suffix) && memcmp(text + digits, suffix, length - digits) == 0) {
            if (value > UINT64_MAX >> suffixes[s].shift) {
                return false;
            }
            *bytes = value << suffixes[s].shift;
            return true;
        }
    }
    return false;
}

static bool append(bench_sizes *sizes, uint64_t bytes) {
    if (sizes->count == MAX_SIZES) {
        bench_complain("--bytes: more than %u sizes", MAX_SIZES);
        return false;
    }
    sizes->bytes[sizes->count++] = bytes;
    return true;
}

static bool bad_part(const char *part, size_t length) {
    bench_complain("--bytes: found '%.*s'; allowed: a size (64, 4Ki, 1Mi, 2Gi), a sweep by a factor "
                   "(4:64Mi:x4) or by a step (0:1Ki:+256), and lists of them (4,1Ki,4Mi)",
                   (int)length, part);
    return false;
}

/* "first:last:xFACTOR" or "first:last:+STEP"; `part` is known to hold a colon. */
static bool sweep(const char *part, size_t length, bench_sizes *sizes) {
    const char *end = part + length;
    const char *colon = memchr(part, ':', length);
    const char *second = memchr(colon + 1, ':', (size_t)(end - colon - 1));
    uint64_t first;
    uint64_t last;
    uint64_t by;
    if (second == NULL || end - second < 3 || (second[1] != 'x' && second[1] != '+') ||
        !bench_parse_size(part, (size_t)(colon - part), &first) ||
        !bench_parse_size(colon + 1, (size_t)(second - colon - 1), &last) ||
        !bench_parse_size(second + 2, (size_t)(end - second - 2), &by)) {
        return bad_part(part, length);
    }
    bool multiply = second[1] == 'x';
    if (first > last || (multiply ? by < 2 || first == 0 : by == 0)) {
        bench_complain(
            "--bytes: the sweep '%.*s' does not advance; allowed: first <= last, a factor of at least "
            "2 from a size that is not 0, or a step that is not 0",
            (int)length, part);
        return false;
    }
    for (uint64_t bytes = first; bytes <= last;) {
        if (!append(sizes, bytes)) {
            return false;
        }
        bool over =
            multiply ? __builtin_mul_overflow(bytes, by, &bytes) : __builtin_add_overflow(bytes, by, &bytes);
        if (over) {
            break;
        }
    }
    return true;
}

bool bench_parse_sizes(const char *text, bench_sizes *sizes) {
    bench_sizes parsed = {calloc(MAX_SIZES, sizeof *parsed.bytes), 0};
    if (parsed.bytes == NULL) {
        bench_complain("out of memory");
        return false;
    }
    const char *part = text;
    for (;;) {
        size_t length = strcspn(part, ",");
        bool good;
        if (memchr(part, ':', length) != NULL) {
            good = sweep(part, length, &parsed);
        } else {
            uint64_t bytes;
            good = bench_parse_size(part, length, &bytes) ? append(&parsed, bytes) : bad_part(part, length);
        }
        if (!good) {
            free(parsed.bytes);
            return false;
        }
        if (part[length] == '\0') {
            break;
        }
        part += length + 1;
    }
    *sizes = parsed;
    return true;
}
