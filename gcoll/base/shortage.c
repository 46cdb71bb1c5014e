/* gcoll/base/shortage.c - exhausted resources: texts that say how to raise the limits; the limit of file
 * sizes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "gcoll/base/base.h"

bool gcoll_is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

gcoll_status gcoll_status_of_errno(int error) {
    return gcoll_is_shortage(error) ? GCOLL_ERR_NO_MEMORY : GCOLL_ERR_IO;
}

const char *gcoll_errno_text(int error, char text[GCOLL_ERRNO_TEXT_MAX]) {
    struct rlimit limit = {0, 0};
    switch (error) {
    case EMFILE:
        getrlimit(RLIMIT_NOFILE, &limit);
        snprintf(text, GCOLL_ERRNO_TEXT_MAX,
                 "no file descriptors left (RLIMIT_NOFILE is %" PRIu64 "): raise it by ulimit -n",
                 (uint64_t)limit.rlim_cur);
        break;
    case ENFILE:
        snprintf(text, GCOLL_ERRNO_TEXT_MAX,
                 "no file descriptors left on this host: raise it by sysctl fs.file-max");
        break;
    case ENOMEM:
        snprintf(text, GCOLL_ERRNO_TEXT_MAX, "no memory");
        break;
    case ENOBUFS:
        snprintf(text, GCOLL_ERRNO_TEXT_MAX, "no memory for sockets left on this host");
        break;
    default:
        snprintf(text, GCOLL_ERRNO_TEXT_MAX, "%s", strerror(error));
    }
    return text;
}

int gcoll_file_size_error(uint64_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur
               ? EFBIG
               : 0;
}
