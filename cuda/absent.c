/* cuda/absent.c - stands in for the accelerator "cuda" in a build without the CUDA toolkit. */
#include "cuda/accelerator.h"

static gcoll_status absent_open(const gcoll_accelerator_options *options, gcoll_accelerator **accelerator) {
    (void)options;
    (void)accelerator;
    return gcoll_error(
        GCOLL_ERR_UNSUPPORTED,
        "cuda: this gcoll was built without it (GCOLL_CUDA; it needs nvcc and libcudart_static.a "
        "of the CUDA toolkit)");
}

/* Nothing else is called, as there is no accelerator. */
const gcoll_accelerator_table gcoll_accelerator_cuda = {.name = "cuda", .open = absent_open};
