/* gcoll/base/private_file.h - files that keep a secret: others can neither read nor change them. */
#ifndef GCOLL_BASE_PRIVATE_FILE_H
#define GCOLL_BASE_PRIVATE_FILE_H

#include "gcoll/base/base.h"
#include "gcoll/base/fork.h"

/* Opens the file for reading, registered for forks. It must be a regular one of this process's user or of
 * root, that nobody else can read, and its group not write; symbolic links are followed. from: what errors
 * call it, as "options.secret_file". INVALID; IO, NOT_FOUND, NO_MEMORY: it cannot be opened. */
gcoll_status gcoll_private_file_open(const char *name, const char *from, gcoll_descriptor *descriptor,
                                     int *fd);
void gcoll_private_file_close(gcoll_descriptor *descriptor, int fd);

#endif
