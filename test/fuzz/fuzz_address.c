/* test/fuzz/fuzz_address.c - addresses that peers publish, and lists of interfaces. */
#include "test/fuzz/fuzz.h"

#include "transport/interfaces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes), again[GCOLL_ADDRESS_MAX], third[GCOLL_ADDRESS_MAX];
    gcoll_address address, back;
    if (gcoll_address_parse(text, &address) == GCOLL_OK) {
        MUST(address.count >= 1 && address.count <= GCOLL_ADDRESS_HOSTS && address.port != 0);
        if (gcoll_address_format(&address, again, sizeof again) == GCOLL_OK) {
            MUST(gcoll_address_parse(again, &back) == GCOLL_OK);
            MUST(gcoll_address_format(&back, third, sizeof third) == GCOLL_OK && strcmp(again, third) == 0);
            uint32_t order[GCOLL_ADDRESS_HOSTS];
            gcoll_address_localize(&address, &back);
            MUST(gcoll_address_choose(&address, &back, order) <= back.count);
        }
    }
    if (gcoll_interfaces_check("the input", text) == GCOLL_OK) {
        gcoll_host_address all[2];
        uint32_t count = 2;
        bool has_prefix;
        MUST(gcoll_host_address_parse("10.0.0.7/8", &all[0], &has_prefix));
        MUST(gcoll_host_address_parse("fe80::1%lo/64", &all[1], &has_prefix));
        if (gcoll_interfaces_choose("the input", text, all, &count) == GCOLL_OK)
            MUST(count >= 1 && count <= 2);
    }
    free(text);
    return 0;
}
