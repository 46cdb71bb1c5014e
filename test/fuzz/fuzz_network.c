/* test/fuzz/fuzz_network.c - network files, as gcoll_plan reads them. */
#include "test/fuzz/fuzz.h"

#include <math.h>

#include "gcoll/plan.h"
#include "tools/network.h"

const char cli_program[] = "fuzz_network";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    tool_network network = {0};
    if (!tool_network_read("--network", fuzz_file(data, bytes), &network))
        return 0;
    MUST(network.ranks > 0 && network.ranks <= GCOLL_MAX_RANKS && network.hosts <= network.ranks);
    MUST(network.most > 0 && network.most <= network.ranks);
    MUST(isfinite(network.between.alpha) && isfinite(network.between.beta) && isfinite(network.within.alpha));
    for (uint32_t r = 0; r < network.ranks; r++) {
        gcoll_simulate_link link;
        MUST(network.host[r] < network.hosts);
        MUST(gcoll_network_link(network.links, r, 0, &link) == GCOLL_OK && link.latency <= link.alpha);
    }
    tool_network_free(&network);
    return 0;
}
