// test/kit/allocations.cc - the linker sends allocations here.
#include "test/kit/allocations.h"

#include <cerrno>
#include <cstddef>
#include <malloc.h>

namespace gcoll_test {

std::atomic<int64_t> allocated_bytes{0};
thread_local int64_t allocations_left = 0, allocations_failed = 0;

} // namespace gcoll_test

namespace {

int64_t bytes_of(void *memory) {
    return static_cast<int64_t>(malloc_usable_size(memory));
}

bool fails() {
    if (gcoll_test::allocations_left == 0 || --gcoll_test::allocations_left > 0)
        return false;
    gcoll_test::allocations_failed++;
    return true;
}

void *taken(void *memory) {
    gcoll_test::allocated_bytes += bytes_of(memory);
    return memory;
}

} // namespace

extern "C" {
// The linker sends calls of NAME to __wrap_NAME; __real_NAME is the C library's.
#define WRAPPED(result, name, ...)                                                                           \
    result __real_##name(__VA_ARGS__);                                                                       \
    result __wrap_##name(__VA_ARGS__)
WRAPPED(void *, malloc, size_t bytes);
WRAPPED(void *, calloc, size_t count, size_t bytes);
WRAPPED(void *, realloc, void *memory, size_t bytes);
WRAPPED(void *, aligned_alloc, size_t alignment, size_t bytes);
WRAPPED(int, posix_memalign, void **memory, size_t alignment, size_t bytes);
WRAPPED(char *, strdup, const char *text);
WRAPPED(void, free, void *memory);

void *__wrap_malloc(size_t bytes) {
    return fails() ? nullptr : taken(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? nullptr : taken(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes) {
    const int64_t before = bytes_of(memory);
    void *moved = fails() ? nullptr : __real_realloc(memory, bytes);
    if (moved)
        gcoll_test::allocated_bytes -= before;
    return taken(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? nullptr : taken(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
    const int error = fails() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
    if (error == 0)
        taken(*memory);
    return error;
}

char *__wrap_strdup(const char *text) {
    return fails() ? nullptr : static_cast<char *>(taken(__real_strdup(text)));
}

void __wrap_free(void *memory) {
    gcoll_test::allocated_bytes -= bytes_of(memory);
    __real_free(memory);
}
}
