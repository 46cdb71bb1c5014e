/* gcoll/base/kernels.c - finds the best reduction kernel that this processor can run. */
#include "gcoll/base/kernels.h"

#include <string.h>

#if defined(__x86_64__)

/* Every processor with AVX2 also has the older F16C, but an emulator may be set up otherwise. Clang 14
 * does not know the name, and cpuid takes 5 us in a virtual machine. */
static bool has_f16c(void) {
#if defined(__clang__)
    return true;
#else
    return __builtin_cpu_supports("f16c");
#endif
}

/* __builtin_cpu_supports also asks whether the operating system saves the wide registers. */
static bool has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool always(void) {
    return true;
}

/* Best first, in the order of gcoll_kernel_sets. */
static const struct {
    bool (*available)(void);
    const gcoll_kernel_table *table;
} sets[] = {
#if defined(__x86_64__)
    {has_avx512, &gcoll_kernels_avx512},
    {has_avx2, &gcoll_kernels_avx2},
#elif defined(__aarch64__)
    {always, &gcoll_kernels_neon},
#endif
    {always, &gcoll_kernels_plain},
};

const char *const gcoll_kernel_sets[] = {
#if defined(__x86_64__)
    "avx512",
    "avx2",
#elif defined(__aarch64__)
    "neon",
#endif
    "plain",
    NULL,
};

_Static_assert(sizeof gcoll_kernel_sets / sizeof gcoll_kernel_sets[0] == sizeof sets / sizeof sets[0] + 1,
               "one name a set, and NULL");

const gcoll_kernel_table *gcoll_kernels_best(void) {
    size_t i = 0;
    while (!sets[i].available()) /* "plain", the last, is always available */
        i++;
    return sets[i].table;
}

const gcoll_kernel_table *gcoll_kernel_table_of(const char *set) {
    for (size_t i = 0; gcoll_kernel_sets[i]; i++)
        if (strcmp(set, gcoll_kernel_sets[i]) == 0)
            return sets[i].available() ? sets[i].table : NULL;
    return NULL;
}

static gcoll_kernel look_up(const gcoll_kernel_table *table, gcoll_type type, gcoll_op op) {
    if (!table || (unsigned)type >= GCOLL_TYPE_COUNT || (unsigned)op >= GCOLL_OP_COUNT)
        return NULL;
    return table->reduce[type][op];
}

gcoll_kernel gcoll_kernel_find(gcoll_type type, gcoll_op op) {
    return look_up(gcoll_kernels_best(), type, op);
}

gcoll_kernel gcoll_kernel_find_in(const char *set, gcoll_type type, gcoll_op op) {
    return look_up(gcoll_kernel_table_of(set), type, op);
}

void gcoll_divide(void *data, uint64_t count, gcoll_type type, uint32_t divisor) {
    gcoll_kernels_best()->divide[type](data, count, divisor);
}

void gcoll_scale(void *dst, const void *src, uint64_t count, gcoll_type type, double factor) {
    gcoll_kernels_best()->scale[type](dst, src, count, factor);
}
