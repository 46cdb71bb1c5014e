/* gcoll/store/file_folder.h - the folder of a file store: whether it is trusted, and removal of old files. */
#ifndef GCOLL_STORE_FILE_FOLDER_H
#define GCOLL_STORE_FILE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "gcoll/status.h"

/* Starts of the names of internal files. No name of a key's file begins with '.'. */
#define GCOLL_FILE_TEMPORARY ".tmp+"
#define GCOLL_FILE_LOCK      ".lock+"
#define GCOLL_FILE_OWN_MAX   32 /* one of these, 16 hexadecimal digits and a NUL */

/* A file that nobody touched for this time was left by a dead job. */
#define GCOLL_FILE_LIFETIME_S 86400

/* Creates a file ".tmp+RANDOM", open for writing. Only this user may use it or, if `shared`, everyone whom
 * the umask allows. Returns -1 with errno on failure. */
int gcoll_file_create_temporary(int folder, bool shared, char name[GCOLL_FILE_OWN_MAX]);

/* ---- file_trust.c ---- */

/* Returns whether only this user (or root) can change this user's files in the folder. Either the folder
 * belongs to this user and nobody else may write it; or it has the sticky bit and belongs to this user or
 * root. */
bool gcoll_folder_trusted(const struct stat *folder);
/* Returns whether the file belongs to this user, and nobody else may write it. */
bool gcoll_file_trusted(const struct stat *file);

/* Return GCOLL_ERR_IO. The message begins with `where`, names owner and mode, and says what is allowed. */
gcoll_status gcoll_folder_refuse(const char *where, const char *folder, const struct stat *info);
gcoll_status gcoll_file_refuse(const char *where, const char *name, const struct stat *info);

/* Refuses a folder if everybody may rename files in one of its parents: write permission for all, and no
 * sticky bit. `path` is absolute and has no symbolic links. */
gcoll_status gcoll_folder_check_parents(const char *where, const char *path);

/* ---- file_sweep.c ---- */

/* Removes files that dead jobs left: internal files and files of contexts' keys, of this user (unless
 * `shared`), that nobody touched for a day by the file system's clock. Checks a few files, and more while it
 * finds any to remove. Never fails: a file that it cannot remove stays. */
void gcoll_folder_sweep(int folder, bool shared);

#endif
