/* benchmark/peers/raw_pattern.c - the transfers of each pattern, step by step. raw.c describes the patterns.
 */
#include "raw.h"

const char *const raw_pattern_names[RAW_PATTERNS] = {"exchange", "halving", "ring", "direct"};

static void add(raw_pattern *p, raw_transfer transfer) {
    if (transfer.bytes > 0 && p->ends[p->steps] < RAW_TRANSFERS_MOST)
        p->transfers[p->ends[p->steps]++] = transfer;
}

static void next_step(raw_pattern *p) {
    p->steps++;
    p->ends[p->steps] = p->ends[p->steps - 1];
}

/* Sends stand first: a blocking exchange needs no look at its socket. */
static void swap(raw_pattern *p, uint32_t peer, raw_transfer sent, raw_transfer received) {
    sent.peer = received.peer = peer;
    sent.send = true;
    add(p, sent);
    add(p, received);
}

static bool is_power_of_two(uint32_t size) {
    return (size & (size - 1)) == 0;
}

/* Into equal parts; of whole float32 if they are summed up. */
static bool divides(uint64_t bytes, uint32_t size, bool sum) {
    return bytes % ((sum ? sizeof(float) : 1) * size) == 0;
}

/* ceil(log2 P) exchanges of the whole vector: the fewest that any allreduce can do with. */
static bool exchange(uint32_t rank, uint32_t size, uint64_t bytes, bool sum, raw_pattern *p) {
    bool pairs = is_power_of_two(size);
    if (sum && !pairs)
        return false;
    for (uint32_t bit = 1; bit < size; bit *= 2) {
        bool later = sum && bit > 1;
        uint32_t to = pairs ? rank ^ bit : (rank + bit) % size;
        uint32_t from = pairs ? rank ^ bit : (rank + size - bit) % size;
        add(p, (raw_transfer){.peer = to, .send = true, .bytes = bytes, .from_output = later});
        add(p, (raw_transfer){
                   .peer = from, .bytes = bytes, .reduce = sum, .from_output = later, .behind = later});
        next_step(p);
    }
    return true;
}

/* Halves, quarters, ... and back: log2 P exchanges each way, 2(P-1)/P of the vector in all. */
static bool halving(uint32_t rank, uint32_t size, uint64_t bytes, bool sum, raw_pattern *p) {
    if (!is_power_of_two(size) || (size == 2 && !sum) || !divides(bytes, size, sum))
        return false;
    uint64_t lo = 0;
    uint64_t width = bytes;
    for (uint32_t bit = size / 2; bit > 0; bit /= 2) {
        width /= 2;
        uint64_t kept = (rank & bit) != 0 ? lo + width : lo;
        uint64_t other = (rank & bit) != 0 ? lo : lo + width;
        bool later = sum && bit < size / 2;
        swap(p, rank ^ bit, (raw_transfer){.at = other, .bytes = width, .from_output = later},
             (raw_transfer){.at = kept, .from = kept, .bytes = width, .reduce = sum, .from_output = later});
        lo = kept;
        next_step(p);
    }
    for (uint32_t bit = 1; bit < size; bit *= 2) {
        uint64_t sibling = (rank & bit) != 0 ? lo - width : lo + width;
        swap(p, rank ^ bit, (raw_transfer){.at = lo, .bytes = width, .from_output = true},
             (raw_transfer){.at = sibling, .from = sibling, .bytes = width, .from_output = true});
        lo = lo < sibling ? lo : sibling;
        width *= 2;
        next_step(p);
    }
    return true;
}

/* To the right and from the left, 2(P-1)/P of the vector, and nothing waits for anything: so it is no sum. */
static bool ring(uint32_t rank, uint32_t size, uint64_t bytes, bool sum, raw_pattern *p) {
    if (size == 2 || bytes % size != 0 || sum)
        return false;
    uint64_t left = 2 * (bytes / size) * (size - 1);
    while (left > 0) {
        uint64_t now = left < bytes ? left : bytes;
        add(p, (raw_transfer){.peer = (rank + 1) % size, .send = true, .bytes = now});
        add(p, (raw_transfer){.peer = (rank + size - 1) % size, .bytes = now});
        next_step(p);
        left -= now;
    }
    return true;
}

/* Everybody sends every other rank its part, then everybody its own part to all. */
static bool direct(uint32_t rank, uint32_t size, uint64_t bytes, bool sum, raw_pattern *p) {
    if (size == 2 || !divides(bytes, size, sum))
        return false;
    uint64_t part = bytes / size;
    for (uint32_t d = 1; d < size; d++) {
        uint32_t to = (rank + d) % size;
        add(p, (raw_transfer){.peer = to, .send = true, .at = to * part, .bytes = part});
    }
    /* Those that land first are reduced, or, where nothing is, land apart. */
    for (uint32_t d = 1; d < size; d++) {
        uint32_t from = (rank + size - d) % size;
        add(p, (raw_transfer){.peer = from,
                              .at = (sum ? rank : from) * part,
                              .from = rank * part,
                              .bytes = part,
                              .reduce = sum,
                              .from_output = sum});
    }
    p->own_at = rank * part;
    p->own_bytes = sum ? part : 0;
    next_step(p);
    for (uint32_t d = 1; d < size; d++) {
        uint32_t to = (rank + d) % size;
        add(p,
            (raw_transfer){.peer = to, .send = true, .at = rank * part, .bytes = part, .from_output = sum});
    }
    for (uint32_t d = 1; d < size; d++) {
        uint32_t from = (rank + size - d) % size;
        add(p, (raw_transfer){.peer = from, .at = from * part, .from = from * part, .bytes = part});
    }
    next_step(p);
    return true;
}

bool raw_pattern_make(uint32_t which, uint32_t rank, uint32_t size, uint64_t bytes, bool sum,
                      raw_pattern *pattern) {
    static bool (*const makers[RAW_PATTERNS])(uint32_t, uint32_t, uint64_t, bool,
                                              raw_pattern *) = {exchange, halving, ring, direct};
    pattern->name = raw_pattern_names[which];
    pattern->steps = 0;
    pattern->ends[0] = 0;
    pattern->own_at = pattern->own_bytes = 0;
    return makers[which](rank, size, bytes, sum, pattern);
}
