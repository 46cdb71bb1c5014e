/* gcoll/base/types.c - names and sizes of element types, names of operations, and which operations each
 * type has. */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/base.h"

static const struct {
    const char *name;
    size_t bytes;
    bool is_integer;
} types[GCOLL_TYPE_COUNT] = {
    [GCOLL_INT8] = {"int8", 1, true},        [GCOLL_UINT8] = {"uint8", 1, true},
    [GCOLL_INT32] = {"int32", 4, true},      [GCOLL_UINT32] = {"uint32", 4, true},
    [GCOLL_INT64] = {"int64", 8, true},      [GCOLL_UINT64] = {"uint64", 8, true},
    [GCOLL_FLOAT16] = {"float16", 2, false}, [GCOLL_BFLOAT16] = {"bfloat16", 2, false},
    [GCOLL_FLOAT32] = {"float32", 4, false}, [GCOLL_FLOAT64] = {"float64", 8, false},
};

static const char *const ops[GCOLL_OP_COUNT] = {
    [GCOLL_SUM] = "sum", [GCOLL_PRODUCT] = "product", [GCOLL_MIN] = "min",
    [GCOLL_MAX] = "max", [GCOLL_AVG] = "avg",         [GCOLL_BAND] = "band",
    [GCOLL_BOR] = "bor", [GCOLL_BXOR] = "bxor",       [GCOLL_USER] = "user",
};

/* Compares as unsigned, so that negative numbers are out of range too. */
static bool is_type(gcoll_type type) {
    return (unsigned)type < GCOLL_TYPE_COUNT;
}

static bool is_op(gcoll_op op) {
    return (unsigned)op < GCOLL_OP_COUNT;
}

size_t gcoll_type_size(gcoll_type type) {
    return is_type(type) ? types[type].bytes : 0;
}

const char *gcoll_type_name(gcoll_type type) {
    return is_type(type) ? types[type].name : "?";
}

bool gcoll_type_is_floating(gcoll_type type) {
    return is_type(type) && !types[type].is_integer;
}

const char *gcoll_op_name(gcoll_op op) {
    return is_op(op) ? ops[op] : "?";
}

static gcoll_status reject_type(const char *name) {
    char allowed[160] = "";
    for (int i = 0; i < GCOLL_TYPE_COUNT; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", types[i].name);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "type \"%.64s\" is unknown; allowed are %s", name ? name : "(null)",
                       allowed);
}

static gcoll_status reject_op(const char *name) {
    char allowed[160] = "";
    for (int i = 0; i < GCOLL_OP_COUNT; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", ops[i]);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "operation \"%.64s\" is unknown; allowed are %s",
                       name ? name : "(null)", allowed);
}

gcoll_status gcoll_type_parse(const char *name, gcoll_type *type) {
    for (int i = 0; name && i < GCOLL_TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (gcoll_type)i;
            return GCOLL_OK;
        }
    }
    return reject_type(name);
}

gcoll_status gcoll_op_parse(const char *name, gcoll_op *op) {
    for (int i = 0; name && i < GCOLL_OP_COUNT; i++) {
        if (strcmp(name, ops[i]) == 0) {
            *op = (gcoll_op)i;
            return GCOLL_OK;
        }
    }
    return reject_op(name);
}

gcoll_status gcoll_op_check(gcoll_type type, gcoll_op op) {
    if (!is_type(type))
        return gcoll_error(GCOLL_ERR_INVALID, "type: is %d (operation %s); allowed are 0 to %d", (int)type,
                           gcoll_op_name(op), GCOLL_TYPE_COUNT - 1);
    if (!is_op(op))
        return gcoll_error(GCOLL_ERR_INVALID, "op: is %d (type %s); allowed are 0 to %d", (int)op,
                           types[type].name, GCOLL_OP_COUNT - 1);
    bool bitwise = op == GCOLL_BAND || op == GCOLL_BOR || op == GCOLL_BXOR;
    if (bitwise && !types[type].is_integer)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "operation %s is not defined for type %s: it is for integer types only", ops[op],
                           types[type].name);
    return GCOLL_OK;
}

/* ---- Reductions of the caller's ------------------------------------------------------------- */

gcoll_status gcoll_reduce_guarded(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                                  void *guarded) {
    gcoll_guarded_reduce *guard = guarded;
    guard->status = GCOLL_ERR_ABORTED;
    guard->reduce(dst, a, b, count, type, guard->arg);
    return guard->status;
}
