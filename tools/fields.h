/* tools/fields.h - fields of JSON that comes from anywhere: types and numbers are checked before they are
 * used, texts are cleaned. */
#ifndef GCOLL_TOOLS_FIELDS_H
#define GCOLL_TOOLS_FIELDS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "gcoll/base/base.h"

/* What was wrong, in words that follow the name of what is read. */
typedef struct field_reader {
    const char *path;
    char problem[512];
} field_reader;

/* Says what is wrong. Returns false. */
bool field_wrong(field_reader *r, const char *format, ...) GCOLL_PRINTF(2, 3);

/* They give the field `name` of an object, or what lacking says if it may lack and does; false: it is
 * missing, of another type, or not 0 to most. */
bool field_whole(field_reader *r, struct json_object *from, const char *name, int64_t most, bool may_lack,
                 int64_t lacking, int64_t *to);
/* A number of 64 bits less one. */
bool field_number(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint64_t *to);
/* A rank or a number of them, which has 32 bits. */
bool field_small(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint32_t lacking,
                 uint32_t *to);
/* Cut to `bytes`, terminator included; bytes that are not printable ASCII become '?'. */
bool field_text(field_reader *r, struct json_object *from, const char *name, bool may_lack, char *to,
                size_t bytes);
/* *to is NULL if it is missing. */
bool field_object(field_reader *r, struct json_object *from, const char *name, json_type type,
                  struct json_object **to);
/* Parses a text of `bytes` bytes. NULL: it is no JSON, and where it ceases to be. */
struct json_object *field_parse(field_reader *r, const char *text, size_t bytes);

#endif
