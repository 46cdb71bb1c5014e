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

bool field_whole(field_reader *r, struct json_object *from, const char *name, int64_t most, bool may_lack,
                 int64_t lacking, int64_t *to) {
    struct json_object *found;
    *to = lacking;
    if (!json_object_object_get_ex(from, name, &found))
        return may_lack || field_wrong(r, "'%s' is missing", name);
    if (!json_object_is_type(found, json_type_int))
        return field_wrong(r, "'%s' is no whole number", name);
    const int64_t value = json_object_get_int64(found);
    if (value < 0 || value > most)
        return field_wrong(r, "'%s' is %" PRId64 "; allowed are 0 to %" PRId64, name, value, most);
    *to = value;
    return true;
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
    else if (!all)
        field_wrong(r, "is null");
    json_tokener_free(tokener);
    return all;
}
