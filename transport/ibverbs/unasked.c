/*
 * transport/ibverbs/unasked.c - what must hold on this machine before a program that named no transport gets
 * this one: nothing may break for it that worked over TCP.
 */
#include <dirent.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "transport/ibverbs/ib.h"

/* From Linux 5.12 on, a forked child gets copies of registered pages. */
#define FORK_MAJOR 5
#define FORK_MINOR 12

/* The kernel has a device. Asking the library for one takes milliseconds, also where there is none. */
bool gcoll_ib_is_likely(void) {
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *each = NULL;
    bool found = false;
    while (devices && !found && (each = readdir(devices)))
        found = each->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return found;
}

static bool may_lock_all(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {0};
    struct rlimit limit = {0, 0};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
        return true;
    return syscall(SYS_capget, &header, held) == 0 && (held[0].effective & (1U << CAP_IPC_LOCK));
}

bool gcoll_ib_may_fork(const char *release) {
    int major = 0, minor = 0;
    if (getenv("IBV_FORK_SAFE") || getenv("RDMAV_FORK_SAFE"))
        return true;
    return sscanf(release, "%d.%d", &major, &minor) == 2 &&
           (major > FORK_MAJOR || (major == FORK_MAJOR && minor >= FORK_MINOR));
}

gcoll_status gcoll_ib_check_unasked(void) {
    struct utsname kernel = {0};
    if (!may_lock_all())
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "this process may lock only so much memory (ulimit -l): ask for ibverbs by name");
    (void)uname(&kernel);
    if (!gcoll_ib_may_fork(kernel.release))
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "with Linux %.32s, programs that fork need IBV_FORK_SAFE=1: set it, or ask for ibverbs by name",
            kernel.release);
    return GCOLL_OK;
}
