/* test/fuzz/fuzz_network.c - network files, as gcoll_plan reads them. */
#include "test/fuzz/fuzz.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gcoll/plan.h"
#include "tools/network.h"

const char cli_program[] = "fuzz_network";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static int fd = -1;
    static char path[64];
    tool_network network = {0};
    if (fd < 0) {
        fd = memfd_create("network", MFD_CLOEXEC);
        MUST(fd >= 0);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
        MUST(freopen("/dev/null", "w", stderr)); /* what the tool complains of */
#endif
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (!tool_network_read("--network", path, &network))
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
