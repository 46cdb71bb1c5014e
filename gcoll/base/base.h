/* gcoll/base/base.h - the common base of all layers: errors, checked sizes, time, reduction kernels. */
#ifndef GCOLL_BASE_H
#define GCOLL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gcoll/status.h"
#include "gcoll/types.h"

#if defined(__GNUC__)
#define GCOLL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define GCOLL_PRINTF(f, a)
#endif

/* Sets this thread's last error text (truncated to 1023 bytes) and returns `status`. The place that
 * detects an error calls it; callers pass the status on. The text may use gcoll_last_error() itself. */
gcoll_status gcoll_error(gcoll_status status, const char *format, ...) GCOLL_PRINTF(2, 3);
#ifdef __clang_analyzer__
/* The analyzer sees one file at a time, so this macro tells it that the call returns `status`. */
#define gcoll_error(status, ...) ((void)(gcoll_error)(status, __VA_ARGS__), (status))
#endif

/* Counts the calls of gcoll_error on this thread: tells whether a function of the caller has set a text. */
uint32_t gcoll_error_count(void);

/* Whether an error number means that this process or host has run out of a resource, such as descriptors
 * or memory. */
bool gcoll_is_shortage(int error);
/* The status of a system call's error number: GCOLL_ERR_NO_MEMORY for a shortage, else GCOLL_ERR_IO. */
gcoll_status gcoll_status_of_errno(int error);
/* The text of strerror. For a shortage it adds what is short, the limit, and how to raise it. Returns text.
 */
#define GCOLL_ERRNO_TEXT_MAX 112
const char *gcoll_errno_text(int error, char text[GCOLL_ERRNO_TEXT_MAX]);

/* Whether this process's limit of file sizes (ulimit -f) lets a file have so many bytes: 0, or EFBIG. The
 * kernel ends a process that goes beyond it, by a signal. */
int gcoll_file_size_error(uint64_t bytes);

/* *product = a * b, or false on overflow. */
static inline bool gcoll_mul_u64(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

/* Monotonic clock. */
int64_t gcoll_now_ns(void);
static inline int64_t gcoll_now_ms(void) {
    return gcoll_now_ns() / 1000000;
}
/* The clock as of its latest tick: some milliseconds ago, and tens of them on a busy virtual machine. So a
 * limit that begins at this time may be over too early. It costs less, and never a system call. */
int64_t gcoll_now_coarse_ms(void);

/* 64 bits that differ between processes, hosts and calls (getrandom). */
gcoll_status gcoll_random_bytes(void *buffer, size_t bytes);

/* Equal for processes that share a loopback interface: the same boot of a machine, the same network
 * namespace, the same host name. */
uint64_t gcoll_host_identity(void);

/* Equal for processes of one machine that may share processors, in whatever namespaces they run. */
uint64_t gcoll_processors_identity(void);

/* Computes dst = a op b over `count` elements; dst may equal a or b. op must not be GCOLL_USER; GCOLL_AVG
 * adds. Buffers may have any alignment. All instruction sets give the same bits, except for the payload of a
 * NaN. */
typedef void (*gcoll_kernel)(void *dst, const void *a, const void *b, uint64_t count);

/* The best kernel for this processor, or NULL if op is not defined for type. Cheap enough to call once
 * for each operation. */
gcoll_kernel gcoll_kernel_find(gcoll_type type, gcoll_op op);

/* Names of the instruction sets that have kernels in this build: best first, "plain" last, then NULL.
 * gcoll_kernel_find_in looks a kernel up in one of them (NULL if this processor lacks it), for tests and
 * benchmarks. */
extern const char *const gcoll_kernel_sets[];
gcoll_kernel gcoll_kernel_find_in(const char *set, gcoll_type type, gcoll_op op);

/* The alignment of an element, in bytes, that buffers of calls must have. type must be valid. */
size_t gcoll_type_alignment(gcoll_type type);

/* Whether sums and products of the type are rounded, and so depend on the order: floats and complex numbers.
 */
bool gcoll_type_is_floating(gcoll_type type);

/* data[i] /= divisor, in the type's arithmetic (floats of 16 and 8 bits through float32; integers truncate
 * toward zero). type must have GCOLL_AVG, divisor > 0. Any alignment. */
void gcoll_divide(void *data, uint64_t count, gcoll_type type, uint32_t divisor);

/* dst[i] = src[i] * factor, where dst may equal src. type must be floating (gcoll_type_is_floating). float64
 * and complex128 take the factor as it is. All others take it as a float32, compute in float32, and round
 * once to the type. Any alignment. */
void gcoll_scale(void *dst, const void *src, uint64_t count, gcoll_type type, double factor);

/* Scalar conversions, round to nearest even, NaN stays NaN (quiet), overflow to infinity. */
float gcoll_half_to_float(uint16_t half);
uint16_t gcoll_float_to_half(float value);
float gcoll_bfloat16_to_float(uint16_t value);
uint16_t gcoll_float_to_bfloat16(float value);

#endif
