/* test/core/counts_calls.c - definitions of functions of the C library that count their calls. The linker
 * uses them in place of the originals, for libraries too. */
#include "test/core/counts_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int counting;
static _Thread_local int takes_part;
static struct {
    atomic_uint_fast64_t allocations, releases, copied, sends, sent, receives, received, refused;
} so_far;

void counts_take_part(int yes) {
    takes_part = yes;
}

void counts_begin(void) {
    atomic_store(&so_far.allocations, 0);
    atomic_store(&so_far.releases, 0);
    atomic_store(&so_far.copied, 0);
    atomic_store(&so_far.sends, 0);
    atomic_store(&so_far.sent, 0);
    atomic_store(&so_far.receives, 0);
    atomic_store(&so_far.received, 0);
    atomic_store(&so_far.refused, 0);
    atomic_store(&counting, 1);
}

void counts_end(counts *result) {
    atomic_store(&counting, 0);
    result->allocations = atomic_load(&so_far.allocations);
    result->releases = atomic_load(&so_far.releases);
    result->copied_bytes = atomic_load(&so_far.copied);
    result->sends = atomic_load(&so_far.sends);
    result->sent_bytes = atomic_load(&so_far.sent);
    result->receives = atomic_load(&so_far.receives);
    result->received_bytes = atomic_load(&so_far.received);
    result->refused = atomic_load(&so_far.refused);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

const int counts_available = 0;

#else

const int counts_available = 1;

static void add(atomic_uint_fast64_t *count, uint64_t value) {
    if (takes_part && atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add_explicit(count, value, memory_order_relaxed);
}

#define PUBLIC __attribute__((visibility("default")))

/* ---- Memory ------------------------------------------------------------------------------------------- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

PUBLIC void *malloc(size_t bytes) {
    add(&so_far.allocations, 1);
    return __libc_malloc(bytes);
}

PUBLIC void *calloc(size_t count, size_t bytes) {
    add(&so_far.allocations, 1);
    return __libc_calloc(count, bytes);
}

PUBLIC void *realloc(void *memory, size_t bytes) {
    add(&so_far.allocations, 1);
    return __libc_realloc(memory, bytes);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t bytes) {
    add(&so_far.allocations, 1);
    return __libc_memalign(alignment, bytes);
}

PUBLIC int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    add(&so_far.allocations, 1);
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}

PUBLIC void free(void *memory) {
    if (memory)
        add(&so_far.releases, 1);
    __libc_free(memory);
}

PUBLIC void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    add(&so_far.allocations, 1);
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

PUBLIC int munmap(void *at, size_t bytes) {
    add(&so_far.releases, 1);
    return (int)syscall(SYS_munmap, at, bytes);
}

/* ---- Copies ------------------------------------------------------------------------------------------- */

typedef void *(*copy_fn)(void *, const void *, size_t);
static _Atomic(copy_fn) real_move; /* NULL until the constructor has run */

__attribute__((constructor)) static void find_move(void) {
    void *found = dlsym(RTLD_NEXT, "memmove");
    copy_fn move;
    __builtin_memcpy(&move, &found, sizeof move);
    atomic_store(&real_move, move);
}

/* Byte by byte, for what runs before; volatile, or the compiler makes a call of memmove of it. */
static void *move_slowly(void *to, const void *from, size_t bytes) {
    volatile char *d = to;
    const volatile char *s = from;
    if ((uintptr_t)d <= (uintptr_t)s)
        for (size_t i = 0; i < bytes; i++)
            d[i] = s[i];
    else
        for (size_t i = bytes; i-- > 0;)
            d[i] = s[i];
    return to;
}

static void *move(void *to, const void *from, size_t bytes) {
    copy_fn real = atomic_load_explicit(&real_move, memory_order_relaxed);
    add(&so_far.copied, bytes);
    return real ? real(to, from, bytes) : move_slowly(to, from, bytes);
}

PUBLIC void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    return move(to, from, bytes);
}

PUBLIC void *memmove(void *to, const void *from, size_t bytes) {
    return move(to, from, bytes);
}

/* ---- Sockets ------------------------------------------------------------------------------------------ */

static ssize_t sent(ssize_t bytes) {
    if (bytes > 0) {
        add(&so_far.sends, 1);
        add(&so_far.sent, (uint64_t)bytes);
    } else {
        add(&so_far.refused, 1);
    }
    return bytes;
}

static ssize_t received(ssize_t bytes) {
    if (bytes > 0) {
        add(&so_far.receives, 1);
        add(&so_far.received, (uint64_t)bytes);
    } else {
        add(&so_far.refused, 1);
    }
    return bytes;
}

PUBLIC ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    return sent(syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0));
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return sent(syscall(SYS_sendmsg, fd, message, flags));
}

PUBLIC ssize_t writev(int fd, const struct iovec *pieces, int count) {
    return sent(syscall(SYS_writev, fd, pieces, count));
}

PUBLIC ssize_t recv(int fd, void *data, size_t bytes, int flags) {
    return received(syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL));
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    return received(syscall(SYS_recvmsg, fd, message, flags));
}

PUBLIC ssize_t readv(int fd, const struct iovec *pieces, int count) {
    return received(syscall(SYS_readv, fd, pieces, count));
}

#endif
