/* tools/json.h - numbers in JSON. */
#ifndef GCOLL_PLAN_TOOL_JSON_H
#define GCOLL_PLAN_TOOL_JSON_H

#include <json-c/json.h>
#include <stdio.h>

/* With as many digits as a double has for certain, so that 12.002 is not 12.001999999999999. */
static inline struct json_object *tool_json_number(double value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.15g", value);
    return json_object_new_double_s(value, text);
}

#endif
