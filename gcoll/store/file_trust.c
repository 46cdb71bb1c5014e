/*
 * gcoll/store/file_trust.c - checks the owner and the mode of the folder and files of a file store.
 *
 * A user who can write the folder decides what the ranks read there: addresses that they connect to, and
 * costs by which they choose algorithms. So the folder must belong to this user, and nobody else may write
 * it. If the folder has the sticky bit, other users may create files in it, but they can neither replace nor
 * remove this user's files. Then the owner of each file is checked. Such a folder may also belong to root,
 * because root can change any file anyway.
 *
 * Each time the folder is opened, it is checked through its descriptor, and each file through the folder's
 * descriptor or its own. So a user who renames folders of the path cannot make the ranks accept another
 * store. A user who may write a parent of the folder can still take the folder away. If everybody may write a
 * parent that has no sticky bit, the folder is refused, because that is a mistake of the set-up. Groups that
 * share a parent are common, and allowed.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/file_folder.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH) /* an access control list shows in the bits of the group */
#define MODE_BITS    07777
#define ALL          "; file:DIR?shared=1 trusts all who may write there"

bool gcoll_folder_trusted(const struct stat *folder) {
    uid_t user = geteuid();
    if ((folder->st_mode & OTHERS_WRITE) == 0)
        return folder->st_uid == user;
    return (folder->st_mode & S_ISVTX) != 0 && (folder->st_uid == user || folder->st_uid == 0);
}

bool gcoll_file_trusted(const struct stat *file) {
    /* Only regular files are checked for their mode. A link's mode means nothing, and reading it fails
     * later. */
    return file->st_uid == geteuid() && (!S_ISREG(file->st_mode) || (file->st_mode & OTHERS_WRITE) == 0);
}

gcoll_status gcoll_folder_refuse(const char *where, const char *folder, const struct stat *info) {
    return gcoll_error(
        GCOLL_ERR_IO,
        "%s: folder %.300s belongs to user %u and has mode %04o; allowed are folders of user %u that "
        "nobody else may write, or that have the sticky bit and belong to this user or root" ALL,
        where, folder, (unsigned)info->st_uid, (unsigned)info->st_mode & MODE_BITS, (unsigned)geteuid());
}

gcoll_status gcoll_file_refuse(const char *where, const char *name, const struct stat *info) {
    return gcoll_error(
        GCOLL_ERR_IO,
        "%s: file %s belongs to user %u and has mode %04o; allowed are files of user %u that nobody "
        "else may write" ALL,
        where, name, (unsigned)info->st_uid, (unsigned)info->st_mode & MODE_BITS, (unsigned)geteuid());
}

gcoll_status gcoll_folder_check_parents(const char *where, const char *path) {
    char parent[PATH_MAX];
    const size_t bytes = strlen(path) + 1;
    if (bytes > sizeof parent)
        return gcoll_error(GCOLL_ERR_IO, "%s: folder %.300s... has a name of more than %zu bytes", where,
                           path, sizeof parent - 1);
    memcpy(parent, path, bytes);
    for (char *slash; (slash = strrchr(parent, '/'));) {
        slash[slash == parent ? 1 : 0] = '\0';
        struct stat info;
        if (stat(parent, &info) == 0 && (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
            return gcoll_error(
                GCOLL_ERR_IO,
                "%s: folder %.300s is in %.300s, which everybody may write (user %u, mode %04o): "
                "they could put another in its place; the sticky bit (chmod +t) prevents that" ALL,
                where, path, parent, (unsigned)info.st_uid, (unsigned)info.st_mode & MODE_BITS);
        if (slash == parent)
            break;
    }
    return GCOLL_OK;
}
