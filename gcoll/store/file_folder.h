/* gcoll/store/file_folder.h - the folder of a file store: whether to trust it, and sweeping old files.
 */
#ifndef GCOLL_STORE_FILE_FOLDER_H
#define GCOLL_STORE_FILE_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "gcoll/status.h"

/* Names with a leading '.' are the store's own. */
#define GCOLL_FILE_TEMPORARY ".tmp+"
#define GCOLL_FILE_LOCK      ".lock+"
#define GCOLL_FILE_OWN_MAX   32 /* one of them and 16 hexadecimal digits */

/* A file of a job that nobody touches for so long is left over. */
#define GCOLL_FILE_LIFETIME_S 86400

/* A new file ".tmp+RANDOM", for this user alone or, `shared`, as the umask has it. -1 and errno on failure.
 */
int gcoll_file_create_temporary(int folder, bool shared, char name[GCOLL_FILE_OWN_MAX]);

/* ---- file_trust.c ---- */

/* Whether nobody but this user, and root, decides what is in the folder; or, with the sticky bit, on the
 * files of this user that are in it. */
bool gcoll_folder_trusted(const struct stat *folder);
/* Whether the file is of this user, and nobody else may write it. */
bool gcoll_file_trusted(const struct stat *file);

/* GCOLL_ERR_IO that names owner and mode and says what is allowed. `where` begins the message. */
gcoll_status gcoll_folder_refuse(const char *where, const char *folder, const struct stat *info);
gcoll_status gcoll_file_refuse(const char *where, const char *name, const struct stat *info);

/* Refuses a folder below one in which everybody may rename what is not theirs. `path` is absolute and has no
 * symbolic links. */
gcoll_status gcoll_folder_check_parents(const char *where, const char *path);

/* ---- file_sweep.c ---- */

/* Removes files that dead jobs left: of this store by name, of this user (unless `shared`), and not touched
 * for a day by the clock of the file system. Looks at some files only, more while it finds any. Never fails:
 * whatever it cannot remove stays, or somebody else removed it. */
void gcoll_folder_sweep(int folder, bool shared);

#endif
