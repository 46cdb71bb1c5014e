/*
 * transport/shm/reach.c - reading any memory of the peer, by process_vm_readv.
 *
 * The kernel allows it to a process of the same user, unless the system is set up otherwise (Yama, a
 * container's filter of system calls). So it is tried when two ranks meet: what is read is the token of the
 * peer's hello, where the memory that both map says that it lies. Each call reads that token besides. So a
 * process that has come to have the peer's number, or another program that the peer has become, is never
 * taken for the peer.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gcoll/base/sha256.h"
#include "transport/shm/shm.h"

#define MOST_BYTES (UINT64_C(4) << 20)
#define PAGE_LEAST 4096U

int gcoll_shm_read_memory(const gcoll_shm_pair *pair, void *to, uint64_t from, uint64_t bytes) {
    uint8_t token[GCOLL_SHM_TOKEN];
    const struct iovec here[] = {{token, sizeof token}, {to, (size_t)bytes}};
    const struct iovec there[] = {{(void *)(uintptr_t)pair->token_at, sizeof token},
                                  {(void *)(uintptr_t)from, (size_t)bytes}};
    const ssize_t got = process_vm_readv(pair->pid, here, 2, there, 2, 0);
    if (got < 0)
        return errno;
    if ((size_t)got < sizeof token) /* it lies in two pages, of which one is protected */
        return EFAULT;
    if (!gcoll_is_same_secret(token, pair->peer.token, sizeof token))
        return ESRCH;
    return (uint64_t)got == sizeof token + bytes ? 0 : EFAULT;
}

void gcoll_shm_try_reach(gcoll_shm_pair *pair) {
    const gcoll_ring_side *peer = gcoll_ring_side_of(pair->memory, 1 - pair->which);
    uint8_t nothing;
    pair->token_at = __atomic_load_n(&peer->token_at, __ATOMIC_RELAXED);
    pair->reaches = pair->shm->pull_bytes > 0 && pair->pid > 0 &&
                    gcoll_shm_read_memory(pair, &nothing, pair->token_at, sizeof nothing) == 0;
}

/* Memory of a device may be there for this process and not for the kernel's copies: so the ends are tried. */
static bool is_readable(const void *data, uint64_t bytes) {
    uint8_t ends[2];
    const struct iovec here = {ends, sizeof ends};
    const struct iovec there[] = {{(void *)(uintptr_t)data, 1}, {(uint8_t *)(uintptr_t)data + bytes - 1, 1}};
    return process_vm_readv(getpid(), &here, 1, there, 2, 0) == (ssize_t)sizeof ends;
}

/* Whether all pages are in memory. The receiver's kernel would fetch the others, and there no time limit
 * counts: a file system may be slow or gone, and a userfaultfd answers when its owner likes. For a file that
 * this process may not write to, mincore reports every page as resident. */
static bool is_resident(const void *data, uint64_t bytes) {
    uint8_t pages[MOST_BYTES / PAGE_LEAST + 1];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t begin = (uint64_t)(uintptr_t)data / page * page;
    const uint64_t span = (uint64_t)(uintptr_t)data + bytes - begin;
    const uint64_t count = (span + page - 1) / page;
    if (count > sizeof pages || mincore((void *)(uintptr_t)begin, (size_t)span, pages) != 0)
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!(pages[i] & 1))
            return false;
    return true;
}

/* Reading takes the receiver's time alone, while through the ring each of the two does its part at once. So a
 * message is read where the sender has one to read, too, meanwhile; if it is large, or may lie in the
 * receiver's cache already. The largest are put past the caches (land.c), which the kernel does not do. What
 * is reduced is not read: a sender that goes on to change the data would wait for the receiver first. */
static bool is_worth_it(const gcoll_shm_pair *pair, const gcoll_message *message) {
    return pair->flow->incoming.slots.count > 0 && (message->flags & GCOLL_FLOW_GRANTED_PLAIN) &&
           (message->settled || message->bytes >= pair->shm->past_bytes) && message->bytes < MOST_BYTES;
}

bool gcoll_shm_is_in_reach(const gcoll_shm_pair *pair, const gcoll_message *message) {
    const uint64_t least = pair->shm->pull_bytes;
    return pair->is_reached && least > 0 && message->bytes >= least && is_worth_it(pair, message) &&
           is_readable(message->data, message->bytes) && is_resident(message->data, message->bytes);
}
