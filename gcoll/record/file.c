/* gcoll/record/file.c - files that are whole whenever somebody reads them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/record/record.h"

#define PATH_ROOM 4096

gcoll_status gcoll_record_write_file(const char *path, unsigned mode, gcoll_record_write_fn write,
                                     const void *arg) {
    char part[PATH_ROOM];
    struct stat is;
    /* A device such as /dev/null would be replaced, for all programs, if the caller may do so. */
    if (stat(path, &is) == 0 && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "path: '%s' is a device, pipe or socket; allowed is a regular file", path);
    if ((size_t)snprintf(part, sizeof part, "%s.XXXXXX", path) >= sizeof part)
        return gcoll_error(GCOLL_ERR_INVALID, "path: is longer than %d bytes", PATH_ROOM - 8);
    const int fd = mkostemp(part, O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        const int error = errno;
        if (fd >= 0) {
            close(fd);
            unlink(part);
        }
        return gcoll_error(GCOLL_ERR_IO, "cannot write '%s': %s", path, strerror(error));
    }
    write(file, arg);
    const bool failed = ferror(file) != 0 || fchmod(fd, mode) != 0;
    int error = errno;
    if (fclose(file) != 0 || failed || rename(part, path) != 0) {
        error = failed ? error : errno;
        unlink(part);
        return gcoll_error(GCOLL_ERR_IO, "cannot write '%s': %s", path, strerror(error));
    }
    return GCOLL_OK;
}
