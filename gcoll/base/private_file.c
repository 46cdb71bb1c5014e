/* gcoll/base/private_file.c - opens files that keep a secret, see private_file.h. */
#include "gcoll/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SAID 80

static gcoll_status check(int fd, const char *name, const char *from) {
    struct stat about;
    if (fstat(fd, &about) != 0)
        return gcoll_error(GCOLL_ERR_IO, "%s: '%.*s': %s", from, NAME_SAID, name, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' is no regular file", from, NAME_SAID, name);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: '%.*s' belongs to user %ld; allowed are this process's user, %ld, and root",
                           from, NAME_SAID, name, (long)about.st_uid, (long)geteuid());
    if ((about.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: '%.*s' has mode %04o; allowed are modes by which others can neither read "
                           "nor write it, nor its group write it, as 0400 and 0440",
                           from, NAME_SAID, name, (unsigned)(about.st_mode & 07777));
    return GCOLL_OK;
}

gcoll_status gcoll_private_file_open(const char *name, const char *from, gcoll_descriptor *descriptor,
                                     int *fd) {
    gcoll_fork_hold();
    const int opened = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const int error = errno;
    if (opened >= 0)
        gcoll_descriptor_enter(descriptor, opened);
    gcoll_fork_release();
    if (opened < 0)
        return gcoll_error(gcoll_status_of_errno(error), "%s: cannot open '%.*s': %s", from, NAME_SAID, name,
                           strerror(error));
    const gcoll_status status = check(opened, name, from);
    if (status == GCOLL_OK)
        *fd = opened;
    else
        gcoll_private_file_close(descriptor, opened);
    return status;
}

void gcoll_private_file_close(gcoll_descriptor *descriptor, int fd) {
    gcoll_fork_hold();
    gcoll_descriptor_leave(descriptor);
    close(fd);
    gcoll_fork_release();
}
