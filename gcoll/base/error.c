/* gcoll/base/error.c - texts of statuses, and the thread-local last error, which is the only state
 * outside handles. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/base/text.h"
#include "gcoll/version.h"

static _Thread_local char last_error[1024];
static _Thread_local uint32_t error_count;

gcoll_status(gcoll_error)(gcoll_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char text[sizeof last_error]; /* an argument may be last_error itself, so not in place */
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gcoll_text_make_line(text); /* the text may repeat input from callers or other programs */
    memcpy(last_error, text, sizeof text);
    error_count++;
    return status;
}

uint32_t gcoll_error_count(void) {
    return error_count;
}

const char *gcoll_last_error(void) {
    return last_error;
}

const char *gcoll_status_text(gcoll_status status) {
    static const char *const texts[] = {
        [GCOLL_OK] = "success",
        [GCOLL_ERR_INVALID] = "invalid argument",
        [GCOLL_ERR_NO_MEMORY] = "out of memory or descriptors",
        [GCOLL_ERR_UNSUPPORTED] = "not supported",
        [GCOLL_ERR_TIMEOUT] = "timed out",
        [GCOLL_ERR_IO] = "input or output failed",
        [GCOLL_ERR_PEER] = "a peer failed",
        [GCOLL_ERR_PROTOCOL] = "protocol violated",
        [GCOLL_ERR_MISMATCH] = "ranks do not agree",
        [GCOLL_ERR_ABORTED] = "aborted",
        [GCOLL_ERR_NOT_FOUND] = "not found",
        [GCOLL_ERR_STATE] = "not allowed in this state",
        [GCOLL_ERR_INTERNAL] = "internal error",
        [GCOLL_WOKEN] = "woken by gcoll_context_wake",
    };
    if ((unsigned)status >= sizeof texts / sizeof texts[0])
        return "unknown status";
    return texts[status];
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *gcoll_version(void) {
    return TEXT(GCOLL_VERSION_MAJOR) "." TEXT(GCOLL_VERSION_MINOR) "." TEXT(GCOLL_VERSION_PATCH);
}
