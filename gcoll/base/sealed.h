/*
 * gcoll/base/sealed.h - memory that processes may share: a file without a name (memfd), sealed against
 * shrinking under a reader.
 *
 * When nobody has its descriptor or maps it any more, it is gone: nothing is left behind, however the
 * processes ended.
 */
#ifndef GCOLL_BASE_SEALED_H
#define GCOLL_BASE_SEALED_H

#include "gcoll/base/base.h"

/* Makes a file without a name; it has no memory yet. Returns a descriptor, or -1 with errno. Requires forks
 * to be held (gcoll/base/fork.h). */
int gcoll_sealed_open(const char *name);
/* Gives it all its pages: without memory for a page, whoever touched it first would be ended by a signal
 * (SIGBUS). Where the kernel cannot promise that (fallocate), pages come as they are touched. Then seals its
 * size; is_final: and its seals. Returns 0 or an error number, with *what, which says what could not be done.
 */
int gcoll_sealed_fill(int fd, size_t bytes, bool is_final, const char **what);
/* Lets everyone else only read: to be called when the owner has mapped the memory to write. Also makes the
 * seals final. A kernel before 5.1 lets others write. Returns 0 or an error number. */
int gcoll_sealed_own(int fd);

/* Whether the size of memory that came from elsewhere is sealed for good; *bytes is then its size, and
 * *is_whole says whether all its pages are there. */
bool gcoll_sealed_check(int fd, uint64_t *bytes, bool *is_whole);

#endif
