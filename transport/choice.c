/* transport/choice.c - parses options.transport by the tables in which lanes declare their options; see
 * choice.h. */
#include "transport/choice.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"

/* Longest part of a text that an error shows. */
#define SHOWN_MAX 64
#define LIST_MAX  512

static const char *const on_off[] = {"off", "on", NULL};

/* A piece of the text, not terminated. */
typedef struct piece {
    const char *text;
    size_t length;
} piece;

static bool same(piece p, const char *word) {
    return strlen(word) == p.length && memcmp(word, p.text, p.length) == 0;
}

/* Takes a piece up to one of the bytes `ends`. */
static piece take(const char *text, const char *ends) {
    return (piece){text, strcspn(text, ends)};
}

typedef struct shown {
    char text[SHOWN_MAX + sizeof "..."];
} shown;

/* The beginning of a piece as an error shows it. */
static shown show(piece p) {
    shown s;
    gcoll_text to = {s.text, sizeof s.text, 0};
    const size_t length = p.length < SHOWN_MAX ? p.length : SHOWN_MAX;
    gcoll_text_add(&to, "%.*s%s", (int)length, p.text, p.length > length ? "..." : "");
    gcoll_text_clean(s.text);
    return s;
}

static shown show_text(const char *text) {
    return show((piece){text, strnlen(text, SHOWN_MAX + 1)});
}

/* ---- Values -------------------------------------------------------------------------------------- */

static const char *const *words_of(const gcoll_lane_option *option) {
    return option->form == GCOLL_LANE_FLAG ? on_off : option->words;
}

static void add_size(gcoll_text *to, int64_t bytes) {
    static const char *const units[] = {"", "Ki", "Mi", "Gi"};
    size_t unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    gcoll_text_add(to, "%lld%s", (long long)bytes, units[unit]);
}

static void add_number(gcoll_text *to, bool is_size, int64_t number) {
    if (is_size)
        add_size(to, number);
    else
        gcoll_text_add(to, "%lld", (long long)number);
}

void gcoll_lane_allowed(const gcoll_lane_option *option, char text[GCOLL_LANE_ALLOWED_MAX]) {
    gcoll_text to = {text, GCOLL_LANE_ALLOWED_MAX, 0};
    const char *const *words = words_of(option);
    text[0] = '\0';
    if (option->form == GCOLL_LANE_TEXT)
        gcoll_text_add(&to, "names of up to %d characters", GCOLL_LANE_VALUE_MAX - 1);
    for (size_t i = 0; words && words[i]; i++)
        gcoll_text_add(&to, "%s%s", i > 0 ? ", " : "", words[i]);
    const bool is_size = option->form == GCOLL_LANE_SIZE;
    for (size_t i = 0; option->values && option->values[i] != 0; i++) {
        gcoll_text_add(&to, "%s", i > 0 ? ", " : "");
        add_number(&to, is_size, (int64_t)option->values[i]);
    }
    if ((is_size || option->form == GCOLL_LANE_WHOLE) && !option->values) {
        add_number(&to, is_size, option->least);
        gcoll_text_add(&to, " to ");
        add_number(&to, is_size, option->most);
    }
    if (is_size)
        gcoll_text_add(&to, " bytes");
    if ((is_size || option->form == GCOLL_LANE_WHOLE) && option->unset < option->least)
        gcoll_text_add(&to, ", and %lld for the default", (long long)option->unset);
}

static bool parse_word(const char *const *words, piece p, int64_t *value) {
    uint64_t index = 0;
    const bool is_index = gcoll_text_parse_whole(p.text, p.length, INT64_MAX, &index);
    for (uint64_t i = 0; words[i]; i++) {
        if (same(p, words[i]) || (is_index && index == i)) {
            *value = (int64_t)i;
            return true;
        }
    }
    return false;
}

/* As gcoll_text_parse_size, where K stands for Ki, k too, and so on. */
static bool parse_size(piece p, int64_t *value) {
    char text[32];
    uint64_t number;
    if (p.length == 0 || p.length > sizeof text - 1)
        return false;
    memcpy(text, p.text, p.length);
    char *unit = &text[p.length - 1 - (p.length > 1 && text[p.length - 1] == 'i')];
    if (*unit == 'k')
        *unit = 'K';
    if (isalpha((unsigned char)text[p.length - 1]) && text[p.length - 1] != 'i')
        text[p.length++] = 'i';
    if (!gcoll_text_parse_size(text, p.length, INT64_MAX, &number))
        return false;
    *value = (int64_t)number;
    return true;
}

/* Decimal or, behind 0x, hexadecimal digits; a minus. */
static bool parse_whole(piece p, int64_t *value) {
    const size_t sign = p.length > 0 && p.text[0] == '-';
    const piece digits = {p.text + sign, p.length - sign};
    uint64_t number = 0;
    if (digits.length > 2 && digits.text[0] == '0' && (digits.text[1] == 'x' || digits.text[1] == 'X')) {
        if (strspn(digits.text + 2, "0123456789abcdefABCDEF") != digits.length - 2 || digits.length > 2 + 15)
            return false;
        number = strtoull(digits.text, NULL, 16);
    } else if (!gcoll_text_parse_whole(digits.text, digits.length, INT64_MAX, &number)) {
        return false;
    }
    *value = sign ? -(int64_t)number : (int64_t)number;
    return true;
}

/* Whether a number is allowed. One that asks for the default always is. */
static bool is_allowed(const gcoll_lane_option *option, int64_t value) {
    if (value == option->unset)
        return true;
    for (size_t i = 0; option->values && option->values[i] != 0; i++)
        if (value == (int64_t)option->values[i])
            return true;
    return !option->values && value >= option->least && value <= option->most;
}

/* Parses the value of an option that is no text. */
static bool parse_number(const gcoll_lane_option *option, piece p, int64_t *value) {
    if (words_of(option))
        return parse_word(words_of(option), p, value);
    return (option->form == GCOLL_LANE_SIZE ? parse_size(p, value) : parse_whole(p, value)) &&
           is_allowed(option, *value);
}

static bool is_text(piece p) {
    for (size_t i = 0; i < p.length; i++)
        if (!isprint((unsigned char)p.text[i]))
            return false;
    return p.length > 0 && p.length < GCOLL_LANE_VALUE_MAX;
}

/* ---- Parsing ------------------------------------------------------------------------------------- */

/* The text under way: what it is called, the lanes that there are, and what was found. */
typedef struct reading {
    const gcoll_lane_row *lanes;
    const char *from;
    const char *text;
    gcoll_lane_choice *choices;
    uint32_t count;
} reading;

static void list_lanes(const gcoll_lane_row *lanes, char list[LIST_MAX]) {
    gcoll_text to = {list, LIST_MAX, 0};
    gcoll_text_add(&to, "auto");
    for (const gcoll_lane_row *lane = lanes; lane->name; lane++)
        gcoll_text_add(&to, ", %s", lane->name);
}

static gcoll_status unknown_lane(const reading *r, piece name) {
    char list[LIST_MAX];
    list_lanes(r->lanes, list);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: names '%s'; allowed are %s", r->from, show(name).text, list);
}

static gcoll_status unknown_option(const reading *r, const gcoll_lane_row *lane, piece key) {
    char list[LIST_MAX] = "";
    gcoll_text to = {list, sizeof list, 0};
    for (const gcoll_lane_option *o = lane->options; o && o->name; o++)
        gcoll_text_add(&to, "%s%s", o == lane->options ? "" : ", ", o->name);
    if (list[0] == '\0')
        return gcoll_error(GCOLL_ERR_INVALID, "%s: %s has no option '%s'; it takes none", r->from, lane->name,
                           show(key).text);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: %s has no option '%s'; allowed are %s", r->from, lane->name,
                       show(key).text, list);
}

static gcoll_status bad_value(const reading *r, const gcoll_lane_row *lane, const gcoll_lane_option *option,
                              const char *found) {
    char allowed[GCOLL_LANE_ALLOWED_MAX];
    gcoll_lane_allowed(option, allowed);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s of %s %s; allowed are %s", r->from, option->name,
                       lane->name, found, allowed);
}

/* Copies a value that is a text behind those that the choice has. False if there is no room. */
static bool keep_text(gcoll_lane_choice *choice, uint32_t index, piece value) {
    size_t used = 0;
    for (uint32_t i = 0; i < GCOLL_LANE_OPTIONS_MAX; i++) {
        if (choice->given & (UINT32_C(1) << i) && choice->lane->options[i].form == GCOLL_LANE_TEXT) {
            const size_t end = (size_t)choice->value[i] + strlen(choice->texts + choice->value[i]) + 1;
            used = end > used ? end : used;
        }
    }
    if (value.length >= sizeof choice->texts - used)
        return false;
    memcpy(choice->texts + used, value.text, value.length);
    choice->texts[used + value.length] = '\0';
    choice->value[index] = (int64_t)used;
    return true;
}

/* One "key=value", or the name of a flag. */
static gcoll_status read_option(const reading *r, gcoll_lane_choice *choice, piece part) {
    const gcoll_lane_row *lane = choice->lane;
    const char *equals = memchr(part.text, '=', part.length);
    const piece key = {part.text, equals ? (size_t)(equals - part.text) : part.length};
    uint32_t index = 0;
    while (lane->options && lane->options[index].name && !same(key, lane->options[index].name))
        index++;
    if (!lane->options || !lane->options[index].name)
        return unknown_option(r, lane, key);
    const gcoll_lane_option *option = &lane->options[index];
    const uint32_t bit = UINT32_C(1) << index;
    if (choice->given & bit)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s of %s is given twice; allowed is once", r->from,
                           option->name, lane->name);
    if (!equals && option->form != GCOLL_LANE_FLAG)
        return bad_value(r, lane, option, "has no value");
    const piece value = equals ? (piece){equals + 1, part.length - key.length - 1} : (piece){"on", 2};
    const bool good = option->form == GCOLL_LANE_TEXT ? is_text(value) && keep_text(choice, index, value)
                                                      : parse_number(option, value, &choice->value[index]);
    if (!good) {
        char found[SHOWN_MAX + 16];
        gcoll_text to = {found, sizeof found, 0};
        gcoll_text_add(&to, "is '%s'", show(value).text);
        return bad_value(r, lane, option, found);
    }
    choice->given |= bit;
    return GCOLL_OK;
}

/* One lane, "name:key=value...". */
static gcoll_status read_lane(reading *r, piece item) {
    piece part = take(item.text, ":,");
    const gcoll_lane_row *lane = r->lanes;
    while (lane->name && !same(part, lane->name))
        lane++;
    if (!lane->name)
        return unknown_lane(r, part);
    for (uint32_t i = 0; i < r->count; i++)
        if (r->choices[i].lane == lane)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: names %s twice; allowed is once", r->from, lane->name);
    if (r->count == GCOLL_LANES_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: names more than %d transports; allowed are up to %d",
                           r->from, GCOLL_LANES_MAX, GCOLL_LANES_MAX);
    gcoll_lane_choice *choice = &r->choices[r->count];
    memset(choice, 0, sizeof *choice);
    choice->lane = lane;
    while (part.text + part.length < item.text + item.length) {
        part = take(part.text + part.length + 1, ":,");
        if (part.length == 0)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: is '%s'; an option is missing behind a colon", r->from,
                               show_text(r->text).text);
        gcoll_status status = read_option(r, choice, part);
        if (status != GCOLL_OK)
            return status;
    }
    r->count++;
    return GCOLL_OK;
}

static gcoll_status read_list(reading *r) {
    const char *at = r->text;
    for (;;) {
        const piece item = take(at, ",");
        if (same(take(at, ":,"), "auto"))
            return gcoll_error(GCOLL_ERR_INVALID,
                               "%s: is '%s'; auto stands alone, without options and other names", r->from,
                               show_text(r->text).text);
        if (item.length == 0)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: is '%s'; a name is missing beside a comma", r->from,
                               show_text(r->text).text);
        gcoll_status status = read_lane(r, item);
        if (status != GCOLL_OK || item.text[item.length] == '\0')
            return status;
        at = item.text + item.length + 1;
    }
}

gcoll_status gcoll_lanes_parse(const gcoll_lane_row *lanes, const char *from, const char *text,
                               gcoll_lane_choice **choices, uint32_t *count) {
    const size_t length = strnlen(text, GCOLL_LANES_TEXT_MAX);
    char list[LIST_MAX];
    if (length == GCOLL_LANES_TEXT_MAX)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: begins with '%s' and is too long; allowed are up to %d bytes", from,
                           show_text(text).text, GCOLL_LANES_TEXT_MAX - 1);
    if (strcmp(text, "auto") == 0) {
        *choices = NULL;
        *count = 0;
        return GCOLL_OK;
    }
    list_lanes(lanes, list);
    if (length == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is ''; allowed are %s", from, list);
    reading r = {lanes, from, text, calloc(GCOLL_LANES_MAX, sizeof *r.choices), 0};
    if (!r.choices)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory for the transports of '%s'", from,
                           show_text(text).text);
    gcoll_status status = read_list(&r);
    if (status != GCOLL_OK) {
        free(r.choices);
        return status;
    }
    gcoll_lane_choice *kept = realloc(r.choices, r.count * sizeof *kept);
    *choices = kept ? kept : r.choices;
    *count = r.count;
    return GCOLL_OK;
}

/* ---- Values of a choice -------------------------------------------------------------------------- */

bool gcoll_lane_number(const gcoll_lane_choice *choice, const char *option, int64_t *value) {
    const gcoll_lane_option *options = choice ? choice->lane->options : NULL;
    for (uint32_t i = 0; options && options[i].name; i++) {
        if (strcmp(options[i].name, option) != 0)
            continue;
        if (!(choice->given & (UINT32_C(1) << i)) || options[i].form == GCOLL_LANE_TEXT)
            return false;
        *value = choice->value[i];
        return true;
    }
    return false;
}

/* ---- A lane's struct of options ------------------------------------------------------------------ */

static const char *get_text(const gcoll_lane_option *option, const void *given) {
    const char *text = NULL;
    memcpy(&text, (const char *)given + option->at, sizeof text);
    return text;
}

/* A field as a number. Above the largest int64_t it is that. */
static int64_t get_number(const gcoll_lane_option *option, const void *given) {
    const char *at = (const char *)given + option->at;
    uint64_t wide;
    uint32_t narrow;
    if (option->bytes == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide < INT64_MAX ? (int64_t)wide : INT64_MAX;
    }
    memcpy(&narrow, at, sizeof narrow);
    return option->unset < 0 ? (int64_t)(int32_t)narrow : (int64_t)narrow;
}

static void put_number(const gcoll_lane_option *option, void *to, int64_t value) {
    const uint64_t wide = (uint64_t)value;
    const uint32_t narrow = (uint32_t)value;
    memcpy((char *)to + option->at, option->bytes == sizeof wide ? (const void *)&wide : &narrow,
           option->bytes);
}

static gcoll_status bad_variable(const gcoll_lane_option *option, const char *text) {
    char allowed[GCOLL_LANE_ALLOWED_MAX];
    gcoll_lane_allowed(option, allowed);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: is '%s'; allowed are %s", option->variable,
                       show_text(text).text, allowed);
}

static gcoll_status complete_text(const gcoll_lane_option *option, const char *chosen, const void *given,
                                  bool by_environment, void *to) {
    const char *text = chosen ? chosen : given ? get_text(option, given) : NULL;
    if (!text && by_environment && option->variable) {
        text = getenv(option->variable);
        text = text && text[0] != '\0' ? text : NULL;
        if (text && !is_text((piece){text, strnlen(text, GCOLL_LANE_VALUE_MAX)}))
            return bad_variable(option, text);
    }
    memcpy((char *)to + option->at, &text, sizeof text);
    return GCOLL_OK;
}

static gcoll_status complete_number(const gcoll_lane_option *option, const int64_t *chosen, const char *from,
                                    const void *given, bool by_environment, void *to) {
    char allowed[GCOLL_LANE_ALLOWED_MAX];
    int64_t value = chosen ? *chosen : given ? get_number(option, given) : option->unset;
    const bool is_word = words_of(option);
    if (!is_word && !is_allowed(option, value)) {
        gcoll_lane_allowed(option, allowed);
        return gcoll_error(GCOLL_ERR_INVALID, "%s->%s: is %lld; allowed are %s", from, option->field,
                           (long long)value, allowed);
    }
    uint64_t words = 0;
    while (is_word && words_of(option)[words])
        words++;
    if (is_word && (value < 0 || (uint64_t)value >= words))
        return gcoll_error(GCOLL_ERR_INVALID, "%s->%s: is %lld; allowed are 0 to %llu", from, option->field,
                           (long long)value, (unsigned long long)words - 1);
    const char *text = by_environment && !chosen && value == option->unset && option->variable
                           ? getenv(option->variable)
                           : NULL;
    if (text && text[0] != '\0' && !parse_number(option, (piece){text, strlen(text)}, &value))
        return bad_variable(option, text);
    put_number(option, to, value == option->unset ? option->fallback : value);
    return GCOLL_OK;
}

gcoll_status gcoll_lane_complete(const gcoll_lane_option *options, const gcoll_lane_choice *choice,
                                 const char *from, const void *given, bool by_environment, void *to) {
    for (uint32_t i = 0; options && options[i].name; i++) {
        const gcoll_lane_option *option = &options[i];
        const bool is_chosen = choice && choice->given & (UINT32_C(1) << i);
        if (!option->field)
            continue;
        const gcoll_status status =
            option->form == GCOLL_LANE_TEXT
                ? complete_text(option, is_chosen ? choice->texts + choice->value[i] : NULL, given,
                                by_environment, to)
                : complete_number(option, is_chosen ? &choice->value[i] : NULL, from, given, by_environment,
                                  to);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}
