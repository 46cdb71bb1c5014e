/*
 * gcoll/base/block.c - gcoll_memory_alloc, gcoll_memory_free, and the list of the blocks that there are.
 *
 * The lock that is held while the process forks guards the list, too: a forked child finds it whole. The
 * child has neither the mappings (MADV_DONTFORK) nor the descriptors of its parent's blocks. It forgets them
 * before it uses the list for the first time.
 */
#include "gcoll/base/block.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gcoll/base/fork.h"
#include "gcoll/base/sealed.h"
#include "gcoll/memory.h"

#define FIRST_BLOCKS 16

typedef struct block {
    gcoll_block_place place; /* offset 0 */
    bool is_kept;            /* a forked child has the mapping all the same */
    gcoll_descriptor descriptor;
} block;

/* All guarded by the lock of forks, but that `count` and `freed` are also read without it. */
static struct {
    block **sorted; /* by address */
    size_t count, capacity;
    uint64_t newest_id, freed;
    uint32_t forks; /* as counted when the list was last used */
} blocks;

/* Without what the kernel may have mapped there since: the parent's block is not there. The number of its
 * descriptor stays taken: it leads nowhere (gcoll_descriptor), or elsewhere, if the child has closed it. */
static void forget_held(block *b) {
    if (b->is_kept)
        munmap(b->place.start, (size_t)b->place.bytes);
    free(b);
}

/* In a forked child: the blocks are the parent's. */
static void renew_held(void) {
    if (blocks.forks == gcoll_forks)
        return;
    for (size_t i = 0; i < blocks.count; i++)
        forget_held(blocks.sorted[i]);
    __atomic_store_n(&blocks.count, 0, __ATOMIC_RELAXED);
    blocks.forks = gcoll_forks;
}

/* The first block that begins behind an address. */
static size_t behind_held(const uint8_t *at) {
    size_t low = 0, high = blocks.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (blocks.sorted[middle]->place.start > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The block that an address lies in; blocks.count: none. */
static size_t find_held(const uint8_t *at) {
    renew_held();
    const size_t next = behind_held(at);
    const block *b = next > 0 ? blocks.sorted[next - 1] : NULL;
    return b && (uint64_t)(at - b->place.start) < b->place.bytes ? next - 1 : blocks.count;
}

bool gcoll_block_find(const void *data, uint64_t bytes, gcoll_block_place *place) {
    bool is_found = false;
    if (__atomic_load_n(&blocks.count, __ATOMIC_RELAXED) == 0)
        return false;
    gcoll_fork_hold();
    const size_t at = find_held(data);
    if (at < blocks.count) {
        *place = blocks.sorted[at]->place;
        place->offset = (uint64_t)((const uint8_t *)data - place->start);
        is_found = bytes <= place->bytes - place->offset;
    }
    gcoll_fork_release();
    return is_found;
}

int gcoll_block_descriptor_held(const gcoll_block_place *place) {
    const size_t at = find_held(place->start);
    return at < blocks.count && blocks.sorted[at]->place.id == place->id ? blocks.sorted[at]->descriptor.fd
                                                                         : -1;
}

bool gcoll_block_is_alive(const gcoll_block_place *place) {
    gcoll_fork_hold();
    const bool is_alive = gcoll_block_descriptor_held(place) >= 0;
    gcoll_fork_release();
    return is_alive;
}

uint64_t gcoll_blocks_freed(void) {
    return __atomic_load_n(&blocks.freed, __ATOMIC_ACQUIRE);
}

/* ---- Made, freed ------------------------------------------------------------------------------------ */

/* Returns 0 or an error number. */
static int reserve_held(void) {
    if (blocks.count < blocks.capacity)
        return 0;
    const size_t wanted = blocks.capacity > 0 ? 2 * blocks.capacity : FIRST_BLOCKS;
    block **sorted = realloc((void *)blocks.sorted, wanted * sizeof(void *));
    if (!sorted)
        return ENOMEM;
    blocks.sorted = sorted;
    blocks.capacity = wanted;
    return 0;
}

static void insert_held(block *b) {
    const size_t at = behind_held(b->place.start);
    for (size_t i = blocks.count; i > at; i--)
        blocks.sorted[i] = blocks.sorted[i - 1];
    blocks.sorted[at] = b;
    __atomic_store_n(&blocks.count, blocks.count + 1, __ATOMIC_RELAXED);
}

/* Whether the kernel would let this process have that much at all. What it says of private memory it does not
 * say of memory that is shared: there it would end processes until there is enough. */
static bool could_have(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    munmap(at, bytes);
    return true;
}

/* Makes the descriptor. Returns 0 or an error number. */
static int open_held(block *b) {
    renew_held();
    const int fd = gcoll_sealed_open("gcoll-memory");
    if (fd < 0)
        return errno;
    gcoll_descriptor_enter(&b->descriptor, fd);
    return 0;
}

static void close_held(block *b) {
    gcoll_descriptor_leave(&b->descriptor);
    close(b->descriptor.fd);
}

/* Maps a block's memory and enters it. Returns 0 or an error number. */
static int map_held(block *b, size_t bytes) {
    const int fd = b->descriptor.fd;
    int error = reserve_held();
    if (error != 0)
        return error;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return errno;
    error = gcoll_sealed_own(fd);
    if (error != 0) {
        munmap(at, bytes);
        return error;
    }
    b->is_kept = madvise(at, bytes, MADV_DONTFORK) != 0;
    b->place = (gcoll_block_place){.id = ++blocks.newest_id, .start = at, .bytes = bytes};
    insert_held(b);
    return 0;
}

/* Returns 0 or an error number, with *what. Other threads may fork and find while pages are taken. */
static int make(block *b, size_t bytes, const char **what) {
    *what = "the system has not that much";
    if (!could_have(bytes))
        return ENOMEM;
    *what = "cannot make memory to share (memfd_create)";
    gcoll_fork_hold();
    int error = open_held(b);
    gcoll_fork_release();
    if (error != 0)
        return error;
    error = gcoll_sealed_fill(b->descriptor.fd, bytes, false, what);
    gcoll_fork_hold();
    if (error == 0) {
        *what = "cannot map memory to share";
        error = map_held(b, bytes);
    }
    if (error != 0)
        close_held(b);
    gcoll_fork_release();
    return error;
}

static gcoll_status status_of(int error) {
    if (error == EINTR)
        return GCOLL_ERR_IO;
    return gcoll_is_shortage(error) || error == ENOSPC || error == EFBIG ? GCOLL_ERR_NO_MEMORY
                                                                         : GCOLL_ERR_UNSUPPORTED;
}

gcoll_status gcoll_memory_alloc(size_t bytes, void **memory) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char text[GCOLL_ERRNO_TEXT_MAX];
    const char *what;
    if (!memory)
        return gcoll_error(GCOLL_ERR_INVALID, "memory: is NULL; allowed is a place for the address");
    if (bytes == 0 || bytes > PTRDIFF_MAX - page)
        return gcoll_error(GCOLL_ERR_INVALID, "bytes: is %zu; allowed are 1 to %zu", bytes,
                           (size_t)PTRDIFF_MAX - page);
    const gcoll_status status = gcoll_fork_watch();
    if (status != GCOLL_OK)
        return status;
    block *b = calloc(1, sizeof *b);
    if (!b)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a block");
    const int error = make(b, (bytes + page - 1) / page * page, &what);
    if (error != 0) {
        free(b);
        return gcoll_error(status_of(error), "gcoll_memory_alloc of %zu bytes: %s: %s", bytes, what,
                           gcoll_errno_text(error, text));
    }
    *memory = b->place.start; /* NOLINT(clang-analyzer-unix.Malloc): the list has it */
    return GCOLL_OK;
}

/* Takes a block off the list; NULL: none begins there. */
static block *take_held(const uint8_t *start) {
    const size_t at = find_held(start);
    if (at == blocks.count || blocks.sorted[at]->place.start != start)
        return NULL;
    block *b = blocks.sorted[at];
    for (size_t i = at + 1; i < blocks.count; i++)
        blocks.sorted[i - 1] = blocks.sorted[i];
    __atomic_store_n(&blocks.count, blocks.count - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&blocks.freed, blocks.freed + 1, __ATOMIC_RELEASE);
    close_held(b);
    if (blocks.count == 0) {
        free((void *)blocks.sorted);
        blocks.sorted = NULL;
        blocks.capacity = 0;
    }
    return b;
}

gcoll_status gcoll_memory_free(void *memory) {
    if (!memory)
        return GCOLL_OK;
    gcoll_fork_hold();
    block *b = take_held(memory);
    gcoll_fork_release();
    if (!b)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "memory: is %p; allowed is what gcoll_memory_alloc has given this process, and not freed yet",
            memory);
    munmap(b->place.start, (size_t)b->place.bytes);
    free(b);
    return GCOLL_OK;
}
