/* Sums a vector over the processes that a launcher started. Usage: mpirun -n 4 from_env */
#include <gcoll/gcoll.h>
#include <stdio.h>

static int fail(gcoll_status status) {
    fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
    return 1;
}

int main(void) {
    gcoll_context *context;
    gcoll_status status = gcoll_context_create_from_env(NULL, &context);
    if (status != GCOLL_OK)
        return fail(status);

    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    float data[1000];
    for (int i = 0; i < 1000; i++)
        data[i] = (float)(rank + 1);
    status = gcoll_allreduce(context, NULL, data, 1000, GCOLL_FLOAT32, GCOLL_SUM, NULL);
    if (status != GCOLL_OK)
        return fail(status);
    printf("rank %u of %u: the sum is %g\n", rank, size, data[999]);

    gcoll_context_destroy(context); /* closes the store, too */
    return 0;
}
