/* test/fuzz/fuzz_store.c - what ranks read in the store: verdicts, claimants, maps of hosts, signed values;
 * and URLs of stores. */
#include "test/fuzz/fuzz.h"

#include "gcoll/rendezvous/meeting.h"
#include "gcoll/store/signed.h"
#include "gcoll/store/store_internal.h"

#define RANKS 64

static void values(const char *text) {
    gcoll_claimant claimant, back;
    char again[GCOLL_CLAIMANT_TEXT], said[GCOLL_CLAIMANT_SAID];
    uint32_t node[RANKS];
    bool is_map;
    (void)gcoll_rendezvous_verdict(text);
    if (gcoll_claimant_read(text, &claimant)) {
        gcoll_claimant_write(&claimant, again);
        MUST(gcoll_claimant_read(again, &back));
        gcoll_claimant_say(&claimant, said);
        for (const char *at = said; *at != '\0'; at++)
            MUST(*at >= ' ' && *at <= '~');
    }
    if (gcoll_hosts_read(text, RANKS, node, &is_map) == GCOLL_OK && is_map)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            MUST(node[rank] < RANKS);
}

/* Nothing that others write is ever taken for signed. */
static void signed_value(const uint8_t *data, size_t bytes) {
    static gcoll_store *base, *view;
    static const uint8_t secret[32] = {1};
    char room[256];
    size_t got = 0;
    if (!base) {
        MUST(gcoll_store_memory_create(&base) == GCOLL_OK);
        MUST(gcoll_store_signed_create(base, secret, &view) == GCOLL_OK);
    }
    MUST(gcoll_store_set(base, "k", data, bytes < 4096 ? bytes : 4096) == GCOLL_OK);
    MUST(gcoll_store_get(view, "k", room, sizeof room, &got) != GCOLL_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    gcoll_redis_address address;
    values(text);
    signed_value(data, bytes);
    if (gcoll_redis_address_parse(text, (text[0] & 1) != 0, &address) == GCOLL_OK)
        gcoll_redis_address_release(&address);
    free(text);
    return 0;
}
