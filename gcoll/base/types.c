/* gcoll/base/types.c - names and sizes of element types, names of operations, and which operations each
 * type has. */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/base.h"

/* Types of one family have the same operations. Located: a value and an index. */
typedef enum family { FAMILY_INTEGER, FAMILY_BOOL, FAMILY_FLOAT, FAMILY_COMPLEX, FAMILY_LOCATED } family;

static const struct {
    const char *name;
    size_t bytes;
    family family;
} types[GCOLL_TYPE_COUNT] = {
    [GCOLL_INT8] = {"int8", 1, FAMILY_INTEGER},
    [GCOLL_UINT8] = {"uint8", 1, FAMILY_INTEGER},
    [GCOLL_INT32] = {"int32", 4, FAMILY_INTEGER},
    [GCOLL_UINT32] = {"uint32", 4, FAMILY_INTEGER},
    [GCOLL_INT64] = {"int64", 8, FAMILY_INTEGER},
    [GCOLL_UINT64] = {"uint64", 8, FAMILY_INTEGER},
    [GCOLL_FLOAT16] = {"float16", 2, FAMILY_FLOAT},
    [GCOLL_BFLOAT16] = {"bfloat16", 2, FAMILY_FLOAT},
    [GCOLL_FLOAT32] = {"float32", 4, FAMILY_FLOAT},
    [GCOLL_FLOAT64] = {"float64", 8, FAMILY_FLOAT},
    [GCOLL_INT16] = {"int16", 2, FAMILY_INTEGER},
    [GCOLL_UINT16] = {"uint16", 2, FAMILY_INTEGER},
    [GCOLL_BOOL] = {"bool", 1, FAMILY_BOOL},
    [GCOLL_COMPLEX64] = {"complex64", 8, FAMILY_COMPLEX},
    [GCOLL_COMPLEX128] = {"complex128", 16, FAMILY_COMPLEX},
    [GCOLL_FLOAT8_E4M3] = {"float8_e4m3", 1, FAMILY_FLOAT},
    [GCOLL_FLOAT8_E5M2] = {"float8_e5m2", 1, FAMILY_FLOAT},
    [GCOLL_FLOAT32_INT32] = {"float32_int32", sizeof(gcoll_float32_int32), FAMILY_LOCATED},
    [GCOLL_FLOAT64_INT64] = {"float64_int64", sizeof(gcoll_float64_int64), FAMILY_LOCATED},
    [GCOLL_INT32_INT32] = {"int32_int32", sizeof(gcoll_int32_int32), FAMILY_LOCATED},
    [GCOLL_INT64_INT64] = {"int64_int64", sizeof(gcoll_int64_int64), FAMILY_LOCATED},
};

static const char *const ops[GCOLL_OP_COUNT] = {
    [GCOLL_SUM] = "sum",       [GCOLL_PRODUCT] = "product", [GCOLL_MIN] = "min", [GCOLL_MAX] = "max",
    [GCOLL_AVG] = "avg",       [GCOLL_BAND] = "band",       [GCOLL_BOR] = "bor", [GCOLL_BXOR] = "bxor",
    [GCOLL_USER] = "user",     [GCOLL_LAND] = "land",       [GCOLL_LOR] = "lor", [GCOLL_LXOR] = "lxor",
    [GCOLL_MINLOC] = "minloc", [GCOLL_MAXLOC] = "maxloc",
};

/* The operations of each family, beside GCOLL_USER, as bits. */
#define BIT(op)    (1u << (op))
#define ARITHMETIC (BIT(GCOLL_SUM) | BIT(GCOLL_PRODUCT) | BIT(GCOLL_AVG))
#define EXTREMES   (BIT(GCOLL_MIN) | BIT(GCOLL_MAX))
#define BITWISE    (BIT(GCOLL_BAND) | BIT(GCOLL_BOR) | BIT(GCOLL_BXOR))
#define LOGICAL    (BIT(GCOLL_LAND) | BIT(GCOLL_LOR) | BIT(GCOLL_LXOR))

static const unsigned defined_ops[] = {
    [FAMILY_INTEGER] = ARITHMETIC | EXTREMES | BITWISE | LOGICAL,
    [FAMILY_BOOL] = LOGICAL,
    [FAMILY_FLOAT] = ARITHMETIC | EXTREMES,
    [FAMILY_COMPLEX] = ARITHMETIC,
    [FAMILY_LOCATED] = BIT(GCOLL_MINLOC) | BIT(GCOLL_MAXLOC),
};

/* Room for the names of all types or operations in an error. */
#define NAMES_TEXT_MAX 320

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

size_t gcoll_type_alignment(gcoll_type type) {
    const bool has_halves = types[type].family == FAMILY_COMPLEX || types[type].family == FAMILY_LOCATED;
    return has_halves ? types[type].bytes / 2 : types[type].bytes;
}

const char *gcoll_type_name(gcoll_type type) {
    return is_type(type) ? types[type].name : "?";
}

bool gcoll_type_is_floating(gcoll_type type) {
    return is_type(type) && (types[type].family == FAMILY_FLOAT || types[type].family == FAMILY_COMPLEX);
}

const char *gcoll_op_name(gcoll_op op) {
    return is_op(op) ? ops[op] : "?";
}

static gcoll_status reject_type(const char *name) {
    char allowed[NAMES_TEXT_MAX] = "";
    for (int i = 0; i < GCOLL_TYPE_COUNT; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", types[i].name);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "type \"%.64s\" is unknown; allowed are %s", name ? name : "(null)",
                       allowed);
}

static gcoll_status reject_op(const char *name) {
    char allowed[NAMES_TEXT_MAX] = "";
    for (int i = 0; i < GCOLL_OP_COUNT; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", ops[i]);
    }
    return gcoll_error(GCOLL_ERR_INVALID, "operation \"%.64s\" is unknown; allowed are %s",
                       name ? name : "(null)", allowed);
}

gcoll_status gcoll_type_parse(const char *name, gcoll_type *type) {
    if (!type)
        return gcoll_error(GCOLL_ERR_INVALID, "type: is NULL");
    for (int i = 0; name && i < GCOLL_TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (gcoll_type)i;
            return GCOLL_OK;
        }
    }
    return reject_type(name);
}

gcoll_status gcoll_op_parse(const char *name, gcoll_op *op) {
    if (!op)
        return gcoll_error(GCOLL_ERR_INVALID, "op: is NULL");
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
    const unsigned defined = defined_ops[types[type].family];
    if (op == GCOLL_USER || (defined & BIT(op)))
        return GCOLL_OK;
    char allowed[NAMES_TEXT_MAX] = "";
    for (int i = 0; i < GCOLL_OP_COUNT; i++) {
        const size_t used = strlen(allowed);
        if (defined & BIT(i))
            snprintf(allowed + used, sizeof allowed - used, "%s, ", ops[i]);
    }
    return gcoll_error(GCOLL_ERR_INVALID,
                       "op: is %s with type %s; allowed are %sand a function of the caller's", ops[op],
                       types[type].name, allowed);
}

/* ---- Reductions of the caller's ------------------------------------------------------------- */

gcoll_status gcoll_reduce_guarded(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                                  void *guarded) {
    gcoll_guarded_reduce *guard = guarded;
    guard->status = GCOLL_ERR_ABORTED;
    guard->reduce(dst, a, b, count, type, guard->arg);
    return guard->status;
}
