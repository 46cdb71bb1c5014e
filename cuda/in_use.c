/* cuda/in_use.c - finds out whether this process has a CUDA driver open. Part of every build. */
#include <dlfcn.h>
#include <stddef.h>

#include "cuda/accelerator.h"

bool gcoll_cuda_is_in_use(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!driver)
        return false;
    dlclose(driver); /* returns the reference of RTLD_NOLOAD; the driver stays open */
    return true;
}
