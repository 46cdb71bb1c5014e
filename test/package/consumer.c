/* Uses an installed gcoll from C: every public header, and a job of one rank. */
#include <gcoll/collectives.h>
#include <gcoll/context.h>
#include <gcoll/export.h>
#include <gcoll/gcoll.h>
#include <gcoll/operations.h>
#include <gcoll/plan.h>
#include <gcoll/simulate.h>
#include <gcoll/status.h>
#include <gcoll/store.h>
#include <gcoll/types.h>
#include <gcoll/version.h>
#include <stdio.h>

int main(void) {
    gcoll_context *context;
    gcoll_context_options options;
    int32_t data[3] = {1, 2, 3};
    gcoll_context_options_init(&options);
    options.size = 1;
    if (gcoll_context_create(&options, &context) != GCOLL_OK ||
        gcoll_allreduce(context, NULL, data, 3, GCOLL_INT32, GCOLL_SUM, NULL) != GCOLL_OK || data[2] != 3) {
        fprintf(stderr, "%s\n", gcoll_last_error());
        return 1;
    }
    gcoll_context_destroy(context);
    printf("gcoll %s\n", gcoll_version());
    return 0;
}
