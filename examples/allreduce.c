/* Sums a vector over the processes of a job. Usage: allreduce RANK SIZE STORE */
#include <gcoll/gcoll.h>
#include <stdio.h>
#include <stdlib.h>

static void check(gcoll_status status) {
    if (status != GCOLL_OK) {
        fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    gcoll_store *store;
    gcoll_context *context;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    options.size = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    check(gcoll_store_open(argc > 3 ? argv[3] : "file:gcoll-example", 30000, &store));
    options.store = store;
    check(gcoll_context_create(&options, &context)); /* returns when all ranks are there */

    float data[1000];
    for (int i = 0; i < 1000; i++)
        data[i] = (float)(options.rank + 1);
    check(gcoll_allreduce(context, NULL, data, 1000, GCOLL_FLOAT32, GCOLL_SUM, NULL));
    printf("rank %u of %u: the sum is %g\n", options.rank, options.size, data[999]);

    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return 0;
}
