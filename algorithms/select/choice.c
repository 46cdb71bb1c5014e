/* algorithms/select/choice.c - parses and prints a choice of algorithm: "name[:key=value]...". */
#include <string.h>

#include "algorithms/algorithms.h"
#include "gcoll/base/text.h"

/* A piece of the text, not terminated. */
typedef struct piece {
    const char *text;
    size_t length;
} piece;

static bool same(piece p, const char *word) {
    return strlen(word) == p.length && memcmp(word, p.text, p.length) == 0;
}

/* Errors show the beginning of a text. */
#define SHOWN(p) (int)((p).length < 64 ? (p).length : 64), (p).text

/* ---- Parsing ------------------------------------------------------------------------------------- */

static gcoll_status unknown_algorithm(const gcoll_registry *registry, piece name,
                                      gcoll_collective collective) {
    char list[768] = "";
    gcoll_text to = {list, sizeof list, 0};
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = gcoll_registry_at(registry, collective, i)); i++)
        gcoll_text_add(&to, ", %s", a->name);
    return gcoll_error(GCOLL_ERR_INVALID, "algorithm '%.*s' is not an algorithm of %s; allowed are auto%s",
                       SHOWN(name), gcoll_collective_name(collective), list);
}

static gcoll_status unknown_option(piece key, const gcoll_algorithm *algorithm) {
    char list[512] = "";
    gcoll_text to = {list, sizeof list, 0};
    for (const gcoll_option *o = algorithm->options; o && o->name; o++)
        gcoll_text_add(&to, "%s, ", o->name);
    return gcoll_error(GCOLL_ERR_INVALID, "%s has no option '%.*s'; allowed are %ssegment", algorithm->name,
                       SHOWN(key), list);
}

static gcoll_status parse_bytes(const gcoll_algorithm *algorithm, piece p, uint64_t *bytes) {
    if (gcoll_text_parse_size(p.text, p.length, INT64_MAX, bytes))
        return GCOLL_OK;
    return gcoll_error(
        GCOLL_ERR_INVALID,
        "%s: segment '%.*s' is no number of bytes; allowed are digits, then Ki, Mi, Gi or nothing",
        algorithm->name, SHOWN(p));
}

static gcoll_status parse_word(const gcoll_algorithm *algorithm, const gcoll_option *option, piece p,
                               int64_t *value) {
    char list[512] = "";
    gcoll_text to = {list, sizeof list, 0};
    for (int64_t i = 0; option->words[i]; i++) {
        if (same(p, option->words[i])) {
            *value = i;
            return GCOLL_OK;
        }
        gcoll_text_add(&to, "%s%s", i ? ", " : "", option->words[i]);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s is '%.*s', allowed are %s", algorithm->name,
                       option->name, SHOWN(p), list);
}

static gcoll_status parse_number(const gcoll_algorithm *algorithm, const gcoll_option *option, piece p,
                                 int64_t *value) {
    bool negative = p.length > 0 && p.text[0] == '-';
    uint64_t size = 0;
    bool number = gcoll_text_parse_whole(p.text + negative, p.length - negative, INT64_MAX, &size);
    int64_t result = negative ? -(int64_t)size : (int64_t)size;
    if (!number || result < option->min || result > option->max)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s is '%.*s', allowed are %lld to %lld",
                           algorithm->name, option->name, SHOWN(p), (long long)option->min,
                           (long long)option->max);
    *value = result;
    return GCOLL_OK;
}

#define SEGMENT_BIT (UINT32_C(1) << GCOLL_MAX_OPTIONS)

/* One "key=value"; *given has a bit for each option that was there before. */
static gcoll_status parse_option(piece part, gcoll_choice *choice, uint32_t *given) {
    const gcoll_algorithm *algorithm = choice->algorithm;
    const char *equals = memchr(part.text, '=', part.length);
    if (!equals)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' is no option; allowed is key=value",
                           algorithm->name, SHOWN(part));
    piece key = {part.text, (size_t)(equals - part.text)};
    piece value = {equals + 1, part.length - key.length - 1};
    const gcoll_option *option = algorithm->options;
    while (option && option->name && !same(key, option->name))
        option++;
    bool own = option && option->name;
    if (!own && !same(key, "segment"))
        return unknown_option(key, algorithm);
    size_t index = own ? (size_t)(option - algorithm->options) : 0;
    uint32_t bit = own ? UINT32_C(1) << index : SEGMENT_BIT;
    if (*given & bit)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: option %.*s is given twice, allowed is once",
                           algorithm->name, SHOWN(key));
    *given |= bit;
    if (!own)
        return parse_bytes(algorithm, value, &choice->segment_bytes);
    return option->words ? parse_word(algorithm, option, value, &choice->option[index])
                         : parse_number(algorithm, option, value, &choice->option[index]);
}

/* Up to the next colon. */
static piece take_piece(const char *text) {
    return (piece){text, strcspn(text, ":")};
}

gcoll_status gcoll_choice_parse(const gcoll_registry *registry, const char *text, gcoll_collective collective,
                                gcoll_choice *choice) {
    gcoll_choice result = {0};
    uint32_t given = 0;
    piece part = take_piece(text ? text : "auto");
    if (same(part, "auto")) {
        if (part.text[part.length] != '\0')
            return gcoll_error(GCOLL_ERR_INVALID, "auto takes no options, found '%.64s'",
                               part.text + part.length);
        *choice = result;
        return GCOLL_OK;
    }
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = gcoll_registry_at(registry, collective, i)) && !result.algorithm; i++)
        if (same(part, a->name))
            result.algorithm = a;
    if (!result.algorithm)
        return unknown_algorithm(registry, part, collective);
    const gcoll_option *options = result.algorithm->options;
    result.segment_bytes = gcoll_algorithm_segment(result.algorithm);
    for (uint32_t i = 0; options && options[i].name; i++)
        result.option[i] = options[i].fallback;
    while (part.text[part.length] == ':') {
        part = take_piece(part.text + part.length + 1);
        gcoll_status status = parse_option(part, &result, &given);
        if (status != GCOLL_OK)
            return status;
    }
    *choice = result;
    return GCOLL_OK;
}

/* ---- Formatting ---------------------------------------------------------------------------------- */

static void append_bytes(gcoll_text *to, uint64_t bytes) {
    static const char *const suffixes[] = {"", "Ki", "Mi", "Gi"};
    unsigned unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    gcoll_text_add(to, ":segment=%llu%s", (unsigned long long)bytes, suffixes[unit]);
}

void gcoll_choice_format(const gcoll_choice *choice, char *text, size_t bytes) {
    gcoll_text to = {text, bytes, 0};
    gcoll_text_add(&to, "%s", choice->algorithm ? choice->algorithm->name : "auto");
    if (!choice->algorithm)
        return;
    const gcoll_option *options = choice->algorithm->options;
    for (uint32_t i = 0; options && options[i].name; i++) {
        if (choice->option[i] == options[i].fallback)
            continue;
        if (options[i].words)
            gcoll_text_add(&to, ":%s=%s", options[i].name, options[i].words[choice->option[i]]);
        else
            gcoll_text_add(&to, ":%s=%lld", options[i].name, (long long)choice->option[i]);
    }
    if (choice->segment_bytes != gcoll_algorithm_segment(choice->algorithm))
        append_bytes(&to, choice->segment_bytes);
}
