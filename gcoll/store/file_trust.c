/*
 * gcoll/store/file_trust.c - checks who owns and may write the folder and files of a file store.
 *
 * Whoever can write a folder decides what ranks read there: addresses that they connect to, and costs that
 * they go by. So the folder is this user's and nobody else may write it. With the sticky bit others may make
 * files, but neither replace nor remove those of this user; then each file's owner decides. Root may
 * own the folder, too: root can change any file anyway.
 *
 * The folder is checked each time it is opened, through its descriptor, and a file through its own: somebody
 * who renames folders on the way there cannot make a store that passes. What is left to those who may write
 * a parent of the folder is to take it away. Where everybody may (no sticky bit), that is a mistake of the
 * set-up and refused; groups that share a parent are common, and allowed.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/file_folder.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH) /* access lists show in the bits of the group */
#define MODE_BITS    07777
#define ALL          "; file:DIR?shared=1 trusts all who may write there"

bool gcoll_folder_trusted(const struct stat *folder) {
    uid_t user = geteuid();
    if ((folder->st_mode & OTHERS_WRITE) == 0)
        return folder->st_uid == user;
    return (folder->st_mode & S_ISVTX) != 0 && (folder->st_uid == user || folder->st_uid == 0);
}

bool gcoll_file_trusted(const struct stat *file) {
    /* Of what is no file, such as a link, the mode says nothing; reading refuses it. */
    return file->st_uid == geteuid() && (!S_ISREG(file->st_mode) || (file->st_mode & OTHERS_WRITE) == 0);
}

gcoll_status gcoll_folder_refuse(const char *where, const char *folder, const struct stat *info) {
    return gcoll_error(
        GCOLL_ERR_IO,
        "%s: folder %.300s is of user %u and has mode %04o; allowed are folders of user %u that "
        "nobody else may write, or that have the sticky bit and are of this user or root" ALL,
        where, folder, (unsigned)info->st_uid, (unsigned)info->st_mode & MODE_BITS, (unsigned)geteuid());
}

gcoll_status gcoll_file_refuse(const char *where, const char *name, const struct stat *info) {
    return gcoll_error(
        GCOLL_ERR_IO,
        "%s: file %s is of user %u and has mode %04o; allowed are files of user %u that nobody "
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
