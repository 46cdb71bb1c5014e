/*
 * gcoll/plan/verify_values.c - symbolic values: expression trees, each stored once.
 *
 * A value is one tree of operations over contributions (buffer k of rank r). Equal trees have equal numbers:
 * the same operation on the same values is looked up in a table. So a sum of a thousand elements costs one
 * entry. Sets of contributions are stored once in the same way, as an arc of the circle of ranks if possible,
 * else as bits. a op b and b op a are one node, as every operation commutes bit by bit; one bit of the value
 * records whether the operands were in rank order.
 */
#include <stdlib.h>

#include "gcoll/plan/verify_internal.h"

#define DIVIDED   UINT32_MAX       /* as second operand in `pairs`: the first one, divided */
#define MOST      (UINT32_MAX / 2) /* nodes and sets, as both share their word with one bit */
#define WORD_BITS 64u

typedef gcoll_verify_values values_t;
typedef gcoll_verify_set set_t;

static uint32_t node_of(gcoll_verify_value value) {
    return value >> 1;
}

static const set_t *set_of(const values_t *values, gcoll_verify_value value) {
    return &values->sets[values->nodes[node_of(value)] >> 1];
}

/* ---- Sets --------------------------------------------------------------------------------------------- */

/* Bits [begin, end) of the word that starts at bit `base`. */
static uint64_t word_range(uint64_t base, uint64_t begin, uint64_t end) {
    begin = begin > base ? begin - base : 0;
    end = end > base ? end - base : 0;
    uint64_t low = begin < WORD_BITS ? UINT64_MAX << begin : 0;
    uint64_t high = end < WORD_BITS ? ~(UINT64_MAX << end) : UINT64_MAX;
    return low & high;
}

static uint64_t set_word(const values_t *values, const set_t *set, uint64_t word) {
    if (set->bits)
        return values->pool[set->bits - 1 + word];
    uint64_t base = word * WORD_BITS, end = (uint64_t)set->first + set->count;
    uint64_t wrapped = end > values->all ? word_range(base, 0, end - values->all) : 0;
    return wrapped | word_range(base, set->first, end > values->all ? values->all : end);
}

static uint64_t words_of(const values_t *values) {
    return (values->all + (uint64_t)WORD_BITS - 1) / WORD_BITS;
}

/* How far y lies behind x on the circle. */
static uint32_t ahead(const values_t *values, uint32_t x, uint32_t y) {
    return y >= x ? y - x : values->all - x + y;
}

static bool in_common(const values_t *values, const set_t *x, const set_t *y, uint32_t *leaf) {
    if (!x->bits && !y->bits) {
        bool starts_in_x = ahead(values, x->first, y->first) < x->count;
        *leaf = starts_in_x ? y->first : x->first;
        return starts_in_x || ahead(values, y->first, x->first) < y->count;
    }
    for (uint64_t w = 0; w < words_of(values); w++) {
        uint64_t both = set_word(values, x, w) & set_word(values, y, w);
        if (both) {
            *leaf = (uint32_t)(w * WORD_BITS + (uint64_t)__builtin_ctzll(both));
            return true;
        }
    }
    return false;
}

/* Fills in the union of two sets without common members. */
static gcoll_status merge(values_t *values, const set_t *x, const set_t *y, set_t *merged) {
    *merged = (set_t){0, x->count + y->count, 0};
    if (merged->count == values->all)
        return GCOLL_OK;
    if (!x->bits && !y->bits) {
        bool x_then_y = ahead(values, x->first, y->first) == x->count;
        merged->first = x_then_y ? x->first : y->first;
        if (x_then_y || ahead(values, y->first, x->first) == y->count)
            return GCOLL_OK;
    }
    uint64_t words = words_of(values), begin = values->word_count;
    gcoll_status status = gcoll_verify_reserve(&values->pool, &values->word_room, begin + words, 8);
    if (status)
        return status;
    for (uint64_t w = 0; w < words; w++)
        values->pool[begin + w] = set_word(values, x, w) | set_word(values, y, w);
    values->word_count += words;
    merged->bits = begin + 1;
    merged->first = 0;
    return GCOLL_OK;
}

static gcoll_status no_room(void) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "the verifier ran out of memory for values");
}

/* Finds the union of sets x and y: *united is its number. If they overlap, *twice is a contribution in both.
 */
static gcoll_status unite(values_t *values, uint32_t x, uint32_t y, uint32_t *united, bool *overlap,
                          uint32_t *twice) {
    uint64_t key = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
    uint32_t *known = gcoll_verify_map_at(&values->unions, key);
    if (!known || values->set_count >= MOST)
        return no_room();
    *overlap = false;
    if (*known == 0) {
        *overlap = in_common(values, &values->sets[x], &values->sets[y], twice);
        if (*overlap)
            return GCOLL_OK;
        gcoll_status status =
            gcoll_verify_reserve(&values->sets, &values->set_room, values->set_count + 1, sizeof(set_t));
        if (!status)
            status = merge(values, &values->sets[x], &values->sets[y], &values->sets[values->set_count]);
        if (status)
            return status;
        *known = (uint32_t)++values->set_count;
    }
    *united = *known - 1;
    return GCOLL_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------------------
 */

static gcoll_status reserve_nodes(values_t *values, uint64_t count) {
    gcoll_status status = gcoll_verify_reserve(&values->nodes, &values->node_room, count, sizeof(uint32_t));
    if (!status && values->has_codec)
        status = gcoll_verify_reserve(&values->rounded, &values->rounded_room, count, sizeof(uint32_t));
    if (!status && values->has_codec)
        status = gcoll_verify_reserve(&values->origin, &values->origin_room, count, sizeof(uint32_t));
    return status;
}

static gcoll_status add_node(values_t *values, uint32_t set, bool divided, uint32_t *node) {
    gcoll_status status = reserve_nodes(values, values->node_count + 1);
    if (status)
        return status;
    if (values->node_count >= MOST)
        return no_room();
    values->nodes[values->node_count] = set << 1 | (divided ? 1 : 0);
    if (values->has_codec)
        values->rounded[values->node_count] = values->origin[values->node_count] = 0;
    *node = (uint32_t)values->node_count++;
    return GCOLL_OK;
}

/* Whether both operands are in rank order, and right's contributions follow directly after left's. */
static bool in_order(const values_t *values, gcoll_verify_value left, gcoll_verify_value right) {
    if ((left | right) & 1)
        return false;
    const set_t *x = set_of(values, left), *y = set_of(values, right);
    return !x->bits && !y->bits && x->first + x->count == y->first;
}

static gcoll_status new_pair(gcoll_verifier *v, uint32_t rank, uint32_t step, uint32_t x, uint32_t y,
                             uint32_t *node) {
    values_t *values = &v->values;
    if (gcoll_verify_is_encoded(v, x << 1) || gcoll_verify_is_encoded(v, y << 1))
        return gcoll_verify_fail(v, rank, step, "reduces encoded elements that were not decoded");
    if ((values->nodes[x] | values->nodes[y]) & 1)
        return gcoll_verify_fail(v, rank, step, "reduces a value that is already divided");
    uint32_t set = 0, twice = 0;
    bool overlap = false;
    gcoll_status status = unite(values, values->nodes[x] >> 1, values->nodes[y] >> 1, &set, &overlap, &twice);
    if (!status && overlap) {
        uint32_t owner, buffer;
        gcoll_verify_leaf_owner(v, twice, &owner, &buffer);
        return gcoll_verify_fail(v, rank, step, "the contribution of rank %u, buffer %u, comes in twice",
                                 owner, buffer);
    }
    if (!status)
        status = add_node(values, set, false, node);
    if (!status && values->has_codec)
        values->rounded[*node] =
            values->rounded[x] > values->rounded[y] ? values->rounded[x] : values->rounded[y];
    return status;
}

gcoll_status gcoll_verify_combine(gcoll_verifier *v, uint32_t rank, uint32_t step, gcoll_verify_value left,
                                  gcoll_verify_value right, gcoll_verify_value *result) {
    uint32_t x = node_of(left), y = node_of(right);
    uint64_t key = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
    uint32_t *node = gcoll_verify_map_at(&v->values.pairs, key);
    if (!node)
        return no_room();
    if (*node == 0) {
        gcoll_status status = new_pair(v, rank, step, x, y, node);
        if (status)
            return status;
    }
    *result = *node << 1 | (in_order(&v->values, left, right) ? 0 : 1);
    return GCOLL_OK;
}

gcoll_status gcoll_verify_divide(gcoll_verifier *v, uint32_t rank, uint32_t step, gcoll_verify_value value,
                                 gcoll_verify_value *result) {
    values_t *values = &v->values;
    uint32_t x = node_of(value), leaf;
    if (gcoll_verify_is_encoded(v, value))
        return gcoll_verify_fail(v, rank, step, "divides encoded elements that were not decoded");
    if (values->nodes[x] & 1)
        return gcoll_verify_fail(v, rank, step, "divides a value that is already divided");
    if (gcoll_verify_lacks(v, value, &leaf)) {
        uint32_t owner, buffer;
        gcoll_verify_leaf_owner(v, leaf, &owner, &buffer);
        return gcoll_verify_fail(
            v, rank, step, "divides a sum that lacks the contribution of rank %u, buffer %u", owner, buffer);
    }
    uint32_t *node = gcoll_verify_map_at(&values->pairs, (uint64_t)x << 32 | DIVIDED);
    if (!node)
        return no_room();
    if (*node == 0) {
        gcoll_status status = add_node(values, values->nodes[x] >> 1, true, node);
        if (status)
            return status;
        if (values->has_codec)
            values->rounded[*node] = values->rounded[x];
    }
    *result = *node << 1 | (value & 1);
    return GCOLL_OK;
}

gcoll_status gcoll_verify_round(gcoll_verifier *v, gcoll_verify_value value, uint32_t origin,
                                gcoll_verify_value *result) {
    values_t *values = &v->values;
    const uint32_t x = node_of(value);
    uint32_t *node = gcoll_verify_map_at(&values->roundings, (uint64_t)x << 32 | origin);
    if (!node)
        return no_room();
    if (*node == 0) {
        gcoll_status status = add_node(values, values->nodes[x] >> 1, values->nodes[x] & 1, node);
        if (status)
            return status;
        values->rounded[*node] = values->rounded[x] + 1;
        values->origin[*node] = origin;
    }
    *result = *node << 1 | (value & 1);
    return GCOLL_OK;
}

gcoll_status gcoll_verify_words(gcoll_verifier *v, uint32_t origin, gcoll_verify_value *result) {
    uint32_t node = 0;
    gcoll_status status = add_node(&v->values, 0, false, &node);
    if (!status)
        v->values.origin[node] = origin;
    *result = node << 1;
    return status;
}

uint32_t gcoll_verify_origin(const gcoll_verifier *v, gcoll_verify_value value) {
    return v->values.has_codec ? v->values.origin[node_of(value)] : 0;
}

uint32_t gcoll_verify_rounded(const gcoll_verifier *v, gcoll_verify_value value) {
    return v->values.has_codec ? v->values.rounded[node_of(value)] : 0;
}

bool gcoll_verify_is_from(const gcoll_verifier *v, gcoll_verify_value value, gcoll_verify_value leaf) {
    return node_of(value) == node_of(leaf) ||
           (v->values.has_codec && !gcoll_verify_is_encoded(v, value) &&
            v->values.nodes[node_of(value)] == v->values.nodes[node_of(leaf)]);
}

gcoll_verify_value gcoll_verify_leaf(const gcoll_verifier *v, uint32_t rank, uint32_t buffer) {
    return (v->leaf[rank] + buffer + 1) << 1; /* node 0 means never written */
}

bool gcoll_verify_is_divided(const gcoll_verifier *v, gcoll_verify_value value) {
    return v->values.nodes[node_of(value)] & 1;
}

bool gcoll_verify_is_ordered(gcoll_verify_value value) {
    return !(value & 1);
}

bool gcoll_verify_same_tree(gcoll_verify_value x, gcoll_verify_value y) {
    return node_of(x) == node_of(y);
}

/* The node of x op y; 0 if no step built it, or if x or y is 0. */
static uint32_t known_pair(const gcoll_verifier *v, uint32_t x, uint32_t y) {
    uint64_t key = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
    return x != 0 && y != 0 ? gcoll_verify_map_find(&v->values.pairs, key) : 0;
}

static uint32_t known_divided(const gcoll_verifier *v, uint32_t x) {
    return x != 0 ? gcoll_verify_map_find(&v->values.pairs, (uint64_t)x << 32 | DIVIDED) : 0;
}

/* ((x0 op x1) op x2) op ... over all contributions. */
static uint32_t left_tree(const gcoll_verifier *v) {
    uint32_t node = 1;
    for (uint32_t leaf = 1; leaf < v->values.all; leaf++)
        node = known_pair(v, node, leaf + 1);
    return node;
}

/* The tree of pairs over the contributions that exist in [first, first + width); width is a power of two. */
static uint32_t pairs_tree(const gcoll_verifier *v, uint32_t first, uint32_t width) {
    if (width == 1)
        return first + 1;
    uint32_t left = pairs_tree(v, first, width / 2);
    if (v->values.all - first <= width / 2)
        return left;
    return known_pair(v, left, pairs_tree(v, first + width / 2, width / 2));
}

uint32_t gcoll_verify_trees(gcoll_verifier *v, gcoll_verify_value value) {
    gcoll_verify_values *values = &v->values;
    if (!values->trees_known) {
        uint32_t width = 1;
        while (width < values->all)
            width *= 2;
        values->left = left_tree(v);
        values->pairs_tree = pairs_tree(v, 0, width);
        values->trees_known = true;
    }
    const uint32_t node = node_of(value);
    const bool left = node == values->left || node == known_divided(v, values->left);
    const bool pairs = node == values->pairs_tree || node == known_divided(v, values->pairs_tree);
    return (left ? GCOLL_CLAIM_LEFT : 0) | (pairs ? GCOLL_CLAIM_PAIRS : 0);
}

bool gcoll_verify_lacks(const gcoll_verifier *v, gcoll_verify_value value, uint32_t *leaf) {
    const values_t *values = &v->values;
    const set_t *set = set_of(values, value);
    if (set->count == values->all)
        return false;
    uint64_t w = 0;
    while (set_word(values, set, w) == UINT64_MAX)
        w++;
    *leaf = (uint32_t)(w * WORD_BITS + (uint64_t)__builtin_ctzll(~set_word(values, set, w)));
    return true;
}

void gcoll_verify_leaf_owner(const gcoll_verifier *v, uint32_t leaf, uint32_t *rank, uint32_t *buffer) {
    uint32_t low = 0, high = v->size; /* leaf[low] <= leaf < leaf[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (v->leaf[middle] <= leaf)
            low = middle;
        else
            high = middle;
    }
    *rank = low;
    *buffer = leaf - v->leaf[low];
}

/* Node 0 is unset; node i + 1 is contribution i, with set i. */
gcoll_status gcoll_verify_values_create(gcoll_verifier *v) {
    values_t *values = &v->values;
    values->all = v->leaf[v->size];
    uint64_t all = values->all;
    values->has_codec = gcoll_codec_is_set(&v->plans[0]->problem.codec);
    gcoll_status status = reserve_nodes(values, all + 1);
    if (!status)
        status = gcoll_verify_reserve(&values->sets, &values->set_room, all, sizeof(set_t));
    if (status)
        return status;
    values->nodes[0] = 0;
    for (uint64_t i = 0; i <= all && values->has_codec; i++)
        values->rounded[i] = values->origin[i] = 0;
    for (uint32_t i = 0; i < values->all; i++) {
        values->nodes[i + 1] = i << 1;
        values->sets[i] = (set_t){i, 1, 0};
    }
    values->node_count = all + 1;
    values->set_count = all;
    return GCOLL_OK;
}

void gcoll_verify_values_free(gcoll_verify_values *values) {
    gcoll_verify_map_free(&values->pairs);
    gcoll_verify_map_free(&values->unions);
    gcoll_verify_map_free(&values->roundings);
    free(values->rounded);
    free(values->origin);
    free(values->nodes);
    free(values->sets);
    free(values->pool);
}
