/* gcoll/base/sealed.c - memory that processes may share; see sealed.h. */
#include "gcoll/base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/base.h"

#define SIZE_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW)
#define FINAL_SEALS (SIZE_SEALS | F_SEAL_SEAL)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
/* Pages taken by one call. A signal undoes the call that it interrupts: the next one takes half of that. */
#define TAKE_BYTES ((size_t)16 << 20)
/* Calls in a row that signals interrupt, until there are too many of them: a call for one page takes about a
 * microsecond. */
#define INTERRUPTIONS 1000
/* What stat counts blocks in. */
#define BLOCK_BYTES 512

/* Gives the memory its size. The limit of file sizes counts for it, too. Returns 0 or an error number. */
static int set_size(int fd, size_t bytes) {
    const int error = gcoll_file_size_error(bytes);
    return error != 0 || ftruncate(fd, (off_t)bytes) == 0 ? error : errno;
}

/* Returns 0 or an error number; EINTR: signals leave no time for one page. */
static int take_pages(int fd, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t most = TAKE_BYTES;
    uint32_t interruptions = 0;
    for (size_t taken = 0; taken < bytes;) {
        const size_t count = bytes - taken < most ? bytes - taken : most;
        if (fallocate(fd, 0, (off_t)taken, (off_t)count) == 0) {
            taken += count;
            interruptions = 0;
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            return 0; /* then they come as they are touched */
        } else if (errno != EINTR || ++interruptions > INTERRUPTIONS) {
            return errno;
        } else if (most > page) {
            most /= 2;
        }
    }
    return 0;
}

int gcoll_sealed_open(const char *name) {
    return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int gcoll_sealed_fill(int fd, size_t bytes, bool is_final, const char **what) {
    *what = "cannot set the size of memory to share";
    int error = set_size(fd, bytes);
    if (error != 0)
        return error;
    *what = "cannot have all pages of memory to share";
    error = take_pages(fd, bytes);
    if (error == EINTR)
        *what = "signals leave no time to take pages of memory to share";
    if (error != 0)
        return error;
    *what = "cannot seal memory to share";
    return fcntl(fd, F_ADD_SEALS, is_final ? FINAL_SEALS : SIZE_SEALS) == 0 ? 0 : errno;
}

int gcoll_sealed_own(int fd) {
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
        return 0;
    return errno == EINVAL && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0 ? 0 : errno;
}

bool gcoll_sealed_check(int fd, uint64_t *bytes, bool *is_whole) {
    struct stat status;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & FINAL_SEALS) != FINAL_SEALS || fstat(fd, &status) != 0 || status.st_size < 0)
        return false;
    *bytes = (uint64_t)status.st_size;
    *is_whole = (uint64_t)status.st_blocks >= *bytes / BLOCK_BYTES;
    return true;
}
