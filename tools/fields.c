/* tools/fields.c - fields of JSON that comes from anywhere. */
#include "tools/fields.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gcoll/base/text.h"

bool field_wrong(field_reader *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->problem, sizeof r->problem, format, arguments);
    va_end(arguments);
    return false;
}

void field_show(struct json_object *value, char text[FIELD_SHOWN]) {
    const bool is_whole = json_object_is_type(value, json_type_int);
    const int64_t number = is_whole ? json_object_get_int64(value) : 0;
    /* json-c takes the limit in the place of a number that is beyond it. */
    const char *beyond = number == INT64_MAX ? "at least " : number == INT64_MIN ? "at most " : "";
    if (is_whole)
        snprintf(text, FIELD_SHOWN, "%s%" PRId64, beyond, number);
    else
        snprintf(text, FIELD_SHOWN, "%s",
                 value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "null");
    gcoll_text_clean(text);
}

bool field_range(field_reader *r, struct json_object *from, const char *name, int64_t least, int64_t most,
                 bool may_lack, int64_t lacking, int64_t *to) {
    struct json_object *found;
    char text[FIELD_SHOWN];
    *to = lacking;
    if (!json_object_object_get_ex(from, name, &found))
        return may_lack || field_wrong(r, "'%s' is missing", name);
    const bool is_whole = json_object_is_type(found, json_type_int);
    const int64_t value = is_whole ? json_object_get_int64(found) : 0;
    if (is_whole && value >= least && value <= most) {
        *to = value;
        return true;
    }
    field_show(found, text);
    return field_wrong(r, "'%s' is %s; allowed are%s %" PRId64 " to %" PRId64, name, text,
                       is_whole ? "" : " whole numbers from", least, most);
}

bool field_whole(field_reader *r, struct json_object *from, const char *name, int64_t most, bool may_lack,
                 int64_t lacking, int64_t *to) {
    return field_range(r, from, name, 0, most, may_lack, lacking, to);
}

bool field_text(field_reader *r, struct json_object *from, const char *name, bool may_lack, char *to,
                size_t bytes) {
    struct json_object *found;
    to[0] = '\0';
    if (!json_object_object_get_ex(from, name, &found))
        return may_lack || field_wrong(r, "'%s' is missing", name);
    if (!json_object_is_type(found, json_type_string))
        return field_wrong(r, "'%s' is no text", name);
    snprintf(to, bytes, "%s", json_object_get_string(found));
    gcoll_text_clean(to);
    return true;
}

bool field_object(field_reader *r, struct json_object *from, const char *name, json_type type,
                  struct json_object **to) {
    if (!json_object_object_get_ex(from, name, to)) {
        *to = NULL;
        return true;
    }
    return json_object_is_type(*to, type) || field_wrong(r, "'%s' is no %s", name, json_type_to_name(type));
}

bool field_small(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint32_t lacking,
                 uint32_t *to) {
    int64_t value;
    const bool good = field_whole(r, from, name, UINT32_MAX - 1, may_lack, lacking, &value);
    *to = (uint32_t)value;
    return good;
}

bool field_number(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint64_t *to) {
    int64_t value;
    const bool good = field_whole(r, from, name, INT64_MAX, may_lack, 0, &value);
    *to = (uint64_t)value;
    return good;
}

bool field_real(field_reader *r, struct json_object *from, const char *name, double least, double most,
                double *to) {
    struct json_object *found;
    if (!json_object_object_get_ex(from, name, &found))
        return field_wrong(r, "'%s' is missing", name);
    if (!json_object_is_type(found, json_type_double) && !json_object_is_type(found, json_type_int))
        return field_wrong(r, "'%s' is no number", name);
    const double value = json_object_get_double(found);
    if (!(value >= least && value <= most))
        return field_wrong(r, "'%s' is %g; allowed are %g to %g", name, value, least, most);
    *to = value;
    return true;
}

static bool is_among(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

bool field_known(field_reader *r, struct json_object *from, const char *const *names) {
    json_object_object_foreach(from, key, value) {
        char name[64], allowed[256];
        gcoll_text to = {allowed, sizeof allowed, 0};
        (void)value;
        if (is_among(key, names))
            continue;
        snprintf(name, sizeof name, "%s", key);
        gcoll_text_clean(name);
        for (const char *const *at = names; *at; at++)
            gcoll_text_add(&to, "%s'%s'", at == names ? "" : ", ", *at);
        return field_wrong(r, "'%s' is unknown; allowed are %s", name, allowed);
    }
    return true;
}

bool field_in(field_reader *r, const char *format, ...) {
    char place[128], problem[sizeof r->problem];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(place, sizeof place, format, arguments);
    va_end(arguments);
    memcpy(problem, r->problem, sizeof problem);
    return field_wrong(r, "%s: %.380s", place, problem);
}

char *field_load(field_reader *r, size_t most, size_t *bytes) {
    struct stat about;
    const int fd = open(r->path, O_RDONLY | O_NONBLOCK |
                                     O_CLOEXEC); /* a pipe would not be opened before it has a writer */
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *text = NULL;
    if (!file || fstat(fd, &about) != 0)
        field_wrong(r, "cannot be read: %s", strerror(errno));
    else if (!S_ISREG(about.st_mode) || (uintmax_t)about.st_size > most)
        field_wrong(r, "is no regular file of up to %zu bytes", most);
    else if (!(text = malloc((size_t)about.st_size + 1)))
        field_wrong(r, "out of memory");
    if (text) {
        *bytes = fread(text, 1, (size_t)about.st_size, file);
        text[*bytes] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

/* ---- Texts of JSON --------------------------------------------------------------------------------------
 */

#define MOST_DEPTH 32u /* json-c refuses more */
#define MOST_KEYS  64u /* of an object that are compared: more than any known one has */

typedef struct key_list {
    const char *at[MOST_KEYS]; /* each begins with its quote */
    size_t count;
} key_list;

const char *field_skip_string(const char *at) {
    const char quote = *at;
    for (at++; *at && *at != quote; at++)
        if (*at == '\\' && at[1])
            at++;
    return at;
}

/* The last character of a comment, which json-c takes for white space, too; `at` if there is none. */
static const char *skip_comment(const char *at) {
    const char *end = at[1] == '*' ? strstr(at + 2, "*/") : at[1] == '/' ? strchr(at, '\n') : NULL;
    return !end ? at : at[1] == '*' ? end + 1 : end - 1;
}

static bool is_new(key_list *keys, const char *key) {
    const size_t bytes = (size_t)(field_skip_string(key) - key);
    for (size_t i = 0; i < keys->count; i++)
        if (field_skip_string(keys->at[i]) == keys->at[i] + bytes &&
            memcmp(keys->at[i] + 1, key + 1, bytes - 1) == 0)
            return false;
    if (keys->count < MOST_KEYS)
        keys->at[keys->count++] = key;
    return true;
}

static uint32_t line_of(const char *text, const char *place) {
    uint32_t line = 1;
    for (const char *at = text; at < place; at++)
        line += *at == '\n';
    return line;
}

static bool say_twice(field_reader *r, uint32_t line, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(field_skip_string(key) - key - 1), key + 1);
    gcoll_text_clean(name);
    return field_wrong(r, "line %" PRIu32 ": has the key '%s' twice; allowed is once", line, name);
}

/* Walks the text of one value of JSON, as json-c keeps only the last of two equal keys, and stops where the
 * value ends. */
static bool check_text(field_reader *r, const char *text, size_t bytes, const char *end) {
    key_list objects[MOST_DEPTH + 1];
    const char *string = text;
    uint32_t depth = 0;
    objects[0].count = 0;
    for (const char *at = text; at < end; at++)
        if (*at == '/')
            at = skip_comment(at); /* what it ends with is no syntax */
        else if (*at == '"' || *at == '\'')
            at = field_skip_string(string = at);
        else if (*at == '{' && depth < MOST_DEPTH)
            objects[++depth].count = 0;
        else if (*at == '}' && depth > 0)
            depth--;
        else if (*at == ':' && !is_new(&objects[depth], string))
            return say_twice(r, line_of(text, string), string);
    for (const char *at = end; at < text + bytes; at++)
        if (*at == '\0' || !strchr(" \t\r\n", *at))
            return field_wrong(r, "line %" PRIu32 ": has text after its end; allowed is one object",
                               line_of(text, at));
    return true;
}

struct json_object *field_parse(field_reader *r, const char *text, size_t bytes) {
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *all = NULL;
    if (!tokener) {
        field_wrong(r, "out of memory");
        return NULL;
    }
    all = json_tokener_parse_ex(tokener, text, (int)bytes);
    const enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue)
        field_wrong(r, "ends too early, after %zu bytes", bytes);
    else if (error != json_tokener_success)
        field_wrong(r, "is no JSON at byte %zu: %s", json_tokener_get_parse_end(tokener),
                    json_tokener_error_desc(error));
    else if (!all) /* json-c says so of a text and of missing memory */
        field_wrong(r, text[strspn(text, " \t\r\n")] == 'n' ? "is null" : "out of memory");
    else if (!check_text(r, text, bytes, text + json_tokener_get_parse_end(tokener))) {
        json_object_put(all);
        all = NULL;
    }
    json_tokener_free(tokener);
    return all;
}
