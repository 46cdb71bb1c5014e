/* tools/fields.h - fields of JSON that comes from anywhere: types and numbers are checked before they are
 * used, texts are cleaned. */
#ifndef GCOLL_TOOLS_FIELDS_H
#define GCOLL_TOOLS_FIELDS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "gcoll/base/base.h"

/* The state of reading one JSON text. */
typedef struct field_reader {
    const char *path;  /* names the text in messages */
    char problem[512]; /* the first error, as it follows that name: "is no JSON at byte 3"; "": none */
} field_reader;

/* Sets the problem. Returns false. */
bool field_wrong(field_reader *r, const char *format, ...) GCOLL_PRINTF(2, 3);

/* Readers of one field of an object. They return false, and set the problem, if the field is missing, has
 * another type, or is out of range. may_lack: a missing field is no error, and *to is `lacking` (0 or ""
 * where there is no such argument). */

/* An integer from `least` to `most`. */
bool field_range(field_reader *r, struct json_object *from, const char *name, int64_t least, int64_t most,
                 bool may_lack, int64_t lacking, int64_t *to);
/* An integer from 0 to `most`. */
bool field_whole(field_reader *r, struct json_object *from, const char *name, int64_t most, bool may_lack,
                 int64_t lacking, int64_t *to);
/* An integer from 0 to INT64_MAX. */
bool field_number(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint64_t *to);
/* A rank, or a number of ranks: an integer from 0 to UINT32_MAX - 1. */
bool field_small(field_reader *r, struct json_object *from, const char *name, bool may_lack, uint32_t lacking,
                 uint32_t *to);
/* A string, cut to `bytes` with its terminator. Bytes that are not printable ASCII become '?'. */
bool field_text(field_reader *r, struct json_object *from, const char *name, bool may_lack, char *to,
                size_t bytes);
/* A number from `least` to `most`. */
bool field_real(field_reader *r, struct json_object *from, const char *name, double least, double most,
                double *to);
/* A value of this JSON type. *to is NULL if the field is missing, which is no error. */
bool field_object(field_reader *r, struct json_object *from, const char *name, json_type type,
                  struct json_object **to);
/* Whether the object has no fields but these; the list ends with NULL. */
bool field_known(field_reader *r, struct json_object *from, const char *const *names);
/* Puts before the problem where in the text it is: "links[2]: ". Returns false. */
bool field_in(field_reader *r, const char *format, ...) GCOLL_PRINTF(2, 3);

#define FIELD_SHOWN 64
/* A value as messages show it, cut. NULL is JSON's null. */
void field_show(struct json_object *value, char text[FIELD_SHOWN]);

/* Reads a regular file of up to `most` bytes; returns them with a NUL behind them, to be freed. Returns NULL,
 * and sets the problem, if it cannot be read. */
char *field_load(field_reader *r, size_t most, size_t *bytes);
/* Parses a JSON text of `bytes` bytes. Returns NULL, and sets the problem, if it is none, if an object has a
 * key twice (as it is written, among its first 64), or if text follows. json_object_put releases it. */
struct json_object *field_parse(field_reader *r, const char *text, size_t bytes);

/* How often readers of schedules may ask whether a thread block can go on: a small file must not keep a
 * processor busy for minutes. */
#define FIELD_MOST_TRIES ((uint64_t)1 << 25)
#define FIELD_TOO_MANY_TRIES                                                                                 \
    "has thread blocks that wait too long for one another: allowed are up to %" PRIu64                       \
    " looks for one that can go on"

/* The quote that ends the string that begins with the quote `at`; or the end of the text. */
const char *field_skip_string(const char *at);

#endif
