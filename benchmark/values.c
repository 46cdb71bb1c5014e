/*
 * benchmark/values.c - inputs whose results are known exactly.
 *
 * A contribution is a small integer that depends on the contributor (rank and buffer) and on the element's
 * position. All partial results, in whatever order they are formed, are integers that the type holds exactly;
 * so the result is the same for every algorithm, and an element that is lost, doubled or misplaced shows.
 * Where so many contribute that even ones would add up to more than the type holds, all but some of them
 * contribute the neutral element.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/values.h"
#include "tools/cli_value.h"

/* A product stays below 2^6, which int8 holds with either sign. */
#define PRODUCT_TWOS 6u
/* Values of a bit operation differ from the neutral element in so many contributions: enough that each
 * matters to some bit of the result. */
#define BIT_CONTRIBUTORS 3u
/* Small numbers are as good as large ones, and easier to read in a message. */
#define LARGEST_VALUE 50u
/* Of values with an index: few, so that many are equal and the index decides. */
#define LARGEST_LOCATED 2u
#define INDICES         1000u

typedef enum shape { SHAPE_NUMBER, SHAPE_COMPLEX, SHAPE_LOCATED } shape;

typedef struct type_range {
    uint64_t limit; /* integers up to this, and all their sums up to this, are exact */
    bool is_signed;
    shape shape;
    gcoll_type first, second; /* of the halves, where there are any */
} type_range;

static const type_range ranges[GCOLL_TYPE_COUNT] = {
    [GCOLL_INT8] = {.limit = INT8_MAX, .is_signed = true},
    [GCOLL_UINT8] = {.limit = UINT8_MAX},
    [GCOLL_INT16] = {.limit = INT16_MAX, .is_signed = true},
    [GCOLL_UINT16] = {.limit = UINT16_MAX},
    [GCOLL_INT32] = {.limit = INT32_MAX, .is_signed = true},
    [GCOLL_UINT32] = {.limit = UINT32_MAX},
    [GCOLL_INT64] = {.limit = INT64_MAX, .is_signed = true},
    [GCOLL_UINT64] = {.limit = INT64_MAX},
    [GCOLL_BOOL] = {.limit = 1},
    [GCOLL_FLOAT8_E4M3] = {.limit = 1u << 4, .is_signed = true},
    [GCOLL_FLOAT8_E5M2] = {.limit = 1u << 3, .is_signed = true},
    [GCOLL_FLOAT16] = {.limit = 1u << 11, .is_signed = true},
    [GCOLL_BFLOAT16] = {.limit = 1u << 8, .is_signed = true},
    [GCOLL_FLOAT32] = {.limit = 1u << 24, .is_signed = true},
    [GCOLL_FLOAT64] = {.limit = 1ull << 53, .is_signed = true},
    [GCOLL_COMPLEX64] = {1u << 24, true, SHAPE_COMPLEX, GCOLL_FLOAT32, GCOLL_FLOAT32},
    [GCOLL_COMPLEX128] = {1ull << 53, true, SHAPE_COMPLEX, GCOLL_FLOAT64, GCOLL_FLOAT64},
    [GCOLL_FLOAT32_INT32] = {LARGEST_LOCATED, true, SHAPE_LOCATED, GCOLL_FLOAT32, GCOLL_INT32},
    [GCOLL_FLOAT64_INT64] = {LARGEST_LOCATED, true, SHAPE_LOCATED, GCOLL_FLOAT64, GCOLL_INT64},
    [GCOLL_INT32_INT32] = {LARGEST_LOCATED, true, SHAPE_LOCATED, GCOLL_INT32, GCOLL_INT32},
    [GCOLL_INT64_INT64] = {LARGEST_LOCATED, true, SHAPE_LOCATED, GCOLL_INT64, GCOLL_INT64},
};

/* A value. `second` is the imaginary part or the index; 0 for other types. */
typedef struct number {
    int64_t first, second;
} number;

/* Who contributes what: contributor g of `total`, at position i. */
typedef struct recipe {
    type_range range;
    gcoll_op op;
    uint64_t total;
} recipe;

/* The finaliser of splitmix64: 64 well-mixed bits for a contributor and a position. */
static uint64_t draw(uint64_t g, uint64_t i) {
    uint64_t x = (g << 20) + i + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* True for at most `most` of the contributors to a position, and not the same ones at every position. */
static bool chosen(const recipe *r, uint64_t most, uint64_t g, uint64_t i) {
    uint64_t stride = (r->total + most - 1) / most;
    return stride <= 1 || (g + draw(UINT32_MAX, i)) % stride == 0;
}

static int64_t within(const recipe *r, uint64_t most, uint64_t g, uint64_t i) {
    return r->range.is_signed ? (int64_t)(draw(g, i) % (2 * most + 1)) - (int64_t)most
                              : (int64_t)(draw(g, i) % (most + 1));
}

static int64_t sum_value(const recipe *r, uint64_t g, uint64_t i) {
    uint64_t budget = smaller(r->total, r->range.limit);
    if (!chosen(r, budget, g, i))
        return 0;
    return within(r, smaller(r->range.limit / budget, LARGEST_VALUE), g, i);
}

static int64_t product_value(const recipe *r, uint64_t g, uint64_t i) {
    uint64_t bits = draw(g, i);
    int64_t value = chosen(r, PRODUCT_TWOS, g, i) && (bits & 1) ? 2 : 1;
    return r->range.is_signed && (bits & 2) ? -value : value;
}

/* The sum is a multiple of the number of contributors, so that the average is an integer. */
static int64_t average_value(const recipe *r, uint64_t g, uint64_t i) {
    uint64_t total = r->total;
    uint64_t limit = r->range.limit;
    if (total <= limit / 2) { /* each gives the average, and pairs give one more and one less */
        uint64_t most = smaller(limit / total - 1, LARGEST_VALUE);
        int64_t average = 1 + (int64_t)(draw(UINT32_MAX, i) % most);
        if (r->range.is_signed && (draw(UINT32_MAX, i) >> 63))
            average = -average;
        int64_t more = (int64_t)(draw(g / 2, i) & 1);
        if (g == total - 1 && total % 2 == 1)
            more = 0;
        return average + (g % 2 == 0 ? more : -more);
    }
    if (total <= limit) /* one gives it all */
        return draw(UINT32_MAX, i) % total == g && (draw(UINT32_MAX, i) >> 63) ? (int64_t)total : 0;
    /* One gives 1, and one takes it back where the type can; otherwise the division truncates it away. */
    if (i % total == g)
        return 1;
    return r->range.is_signed && (i + 1) % total == g ? -1 : 0;
}

static int64_t simple_value(const recipe *r, uint64_t g, uint64_t i) {
    switch (r->op) {
    case GCOLL_SUM:
        return sum_value(r, g, i);
    case GCOLL_PRODUCT:
        return product_value(r, g, i);
    case GCOLL_AVG:
        return average_value(r, g, i);
    case GCOLL_BAND:
        return chosen(r, BIT_CONTRIBUTORS, g, i) ? (int64_t)draw(g, i) : -1;
    case GCOLL_BOR:
        return chosen(r, BIT_CONTRIBUTORS, g, i) ? (int64_t)draw(g, i) : 0;
    case GCOLL_BXOR:
        return (int64_t)draw(g, i);
    case GCOLL_LAND:
        return chosen(r, BIT_CONTRIBUTORS, g, i) ? (int64_t)(draw(g, i) & 1) : 1;
    case GCOLL_LOR:
        return chosen(r, BIT_CONTRIBUTORS, g, i) ? (int64_t)(draw(g, i) & 1) : 0;
    case GCOLL_LXOR:
        return (int64_t)(draw(g, i) & 1);
    default: /* min, max, minloc, maxloc */
        return within(r, smaller(r->range.limit, LARGEST_VALUE), g, i);
    }
}

/* One contributor to a position has both parts, and the others have positive real numbers. So no part of a
 * partial result is -0, whose sign would depend on the order. */
static number complex_factor(const recipe *r, uint64_t g, uint64_t i) {
    const uint64_t bits = draw(g, i);
    if (draw(UINT32_MAX, i) % r->total != g)
        return (number){chosen(r, PRODUCT_TWOS, g, i) && (bits & 1) ? 2 : 1, 0};
    const int64_t real = 1 + (int64_t)(bits >> 8 & 3), imaginary = 1 + (int64_t)(bits >> 16 & 3);
    return (number){bits & 2 ? -real : real, bits & 4 ? -imaginary : imaginary};
}

static number contribution(const recipe *r, uint64_t g, uint64_t i) {
    if (r->range.shape == SHAPE_COMPLEX && r->op == GCOLL_PRODUCT)
        return complex_factor(r, g, i);
    number x = {simple_value(r, g, i), 0};
    if (r->range.shape == SHAPE_LOCATED)
        x.second = (int64_t)(draw(g, i + BENCH_PERIOD) % INDICES);
    else if (r->range.shape == SHAPE_COMPLEX)
        x.second = simple_value(r, g, i + BENCH_PERIOD);
    return x;
}

static int64_t combine_simple(gcoll_op op, int64_t a, int64_t b) {
    switch (op) {
    case GCOLL_PRODUCT:
        return a * b;
    case GCOLL_MIN:
        return a < b ? a : b;
    case GCOLL_MAX:
        return a > b ? a : b;
    case GCOLL_BAND:
        return a & b;
    case GCOLL_BOR:
        return a | b;
    case GCOLL_BXOR:
        return a ^ b;
    case GCOLL_LAND:
        return a && b;
    case GCOLL_LOR:
        return a || b;
    case GCOLL_LXOR:
        return !a != !b;
    default: /* sum, avg */
        return a + b;
    }
}

static number combine(const recipe *r, number a, number b) {
    const gcoll_op op = r->op;
    if (r->range.shape == SHAPE_LOCATED) {
        const bool is_first = a.first == b.first   ? a.second < b.second
                              : op == GCOLL_MINLOC ? a.first < b.first
                                                   : a.first > b.first;
        return is_first ? a : b;
    }
    if (r->range.shape == SHAPE_COMPLEX && op == GCOLL_PRODUCT)
        return (number){a.first * b.first - a.second * b.second, a.first * b.second + a.second * b.first};
    return (number){combine_simple(op, a.first, b.first), combine_simple(op, a.second, b.second)};
}

static number expected(const recipe *r, uint64_t i) {
    number result = contribution(r, 0, i);
    for (uint64_t g = 1; g < r->total; g++)
        result = combine(r, result, contribution(r, g, i));
    if (r->op == GCOLL_AVG)
        result = (number){result.first / (int64_t)r->total, result.second / (int64_t)r->total};
    return result;
}

/* An integer as a float of 16 or 8 bits: the leading bits of float32, as it needs no rounding. */
static uint16_t narrow_of(float value, unsigned exponent_bits, unsigned fraction_bits) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 31 << (exponent_bits + fraction_bits);
    if ((bits & 0x7fffffffu) == 0)
        return (uint16_t)sign;
    uint32_t bias = (1u << (exponent_bits - 1)) - 1;
    uint32_t exponent = (bits >> 23 & 0xffu) - 127u + bias;
    uint32_t fraction = bits >> (23 - fraction_bits) & ((1u << fraction_bits) - 1);
    return (uint16_t)(sign | exponent << fraction_bits | fraction);
}

static void store_simple(unsigned char *place, gcoll_type type, int64_t value) {
    float f32 = (float)value;
    double f64 = (double)value;
    uint16_t narrow = 0;
    const void *from = &value; /* of integers the low bytes, which come first */
    switch (type) {
    case GCOLL_FLOAT8_E4M3:
        narrow = narrow_of(f32, 4, 3);
        from = &narrow;
        break;
    case GCOLL_FLOAT8_E5M2:
        narrow = narrow_of(f32, 5, 2);
        from = &narrow;
        break;
    case GCOLL_FLOAT16:
        narrow = narrow_of(f32, 5, 10);
        from = &narrow;
        break;
    case GCOLL_BFLOAT16:
        narrow = narrow_of(f32, 8, 7);
        from = &narrow;
        break;
    case GCOLL_FLOAT32:
        from = &f32;
        break;
    case GCOLL_FLOAT64:
        from = &f64;
        break;
    default:
        break;
    }
    memcpy(place, from, gcoll_type_size(type));
}

static void store(unsigned char *place, gcoll_type type, number value) {
    const type_range *range = &ranges[type];
    if (range->shape == SHAPE_NUMBER) {
        store_simple(place, type, value.first);
        return;
    }
    store_simple(place, range->first, value.first);
    store_simple(place + gcoll_type_size(range->first), range->second, value.second);
}

bool bench_values_create(gcoll_type type, gcoll_op op, uint64_t total, bool reduces, bench_values *values) {
    size_t element = gcoll_type_size(type);
    *values = (bench_values){
        .type = type, .op = reduces ? op : GCOLL_MAX, .total = total, .element_bytes = element};
    values->contributor = calloc(BENCH_PERIOD, element);
    values->result = reduces ? calloc(BENCH_PERIOD, element) : NULL;
    if (!values->contributor || (reduces && !values->result)) {
        cli_complain("out of memory for values");
        bench_values_free(values);
        return false;
    }
    recipe r = {ranges[type], values->op, total};
    for (uint32_t i = 0; i < BENCH_PERIOD && reduces; i++)
        store(values->result + i * element, type, expected(&r, i));
    return true;
}

/* Turns +0 of a float into -0, in place, if some contribution to it is not 0. */
static void negate_cancelled(unsigned char *place, gcoll_type type, bool cancelled) {
    const size_t bytes = gcoll_type_size(type);
    static const unsigned char zero[sizeof(double)];
    if (cancelled && memcmp(place, zero, bytes) == 0)
        place[bytes - 1] = 0x80; /* the byte with the sign */
}

void bench_values_negate_zeros(bench_values *values) {
    const type_range *range = &ranges[values->type];
    const bool is_complex = range->shape == SHAPE_COMPLEX;
    const gcoll_type part = is_complex ? range->first : values->type;
    recipe r = {*range, values->op, values->total};
    for (uint32_t i = 0; i < BENCH_PERIOD; i++) {
        unsigned char *place = values->result + i * values->element_bytes;
        bool first = false, second = false; /* some contribution is not 0 */
        for (uint64_t g = 0; g < values->total; g++) {
            const number x = contribution(&r, g, i);
            first = first || x.first != 0;
            second = second || x.second != 0;
        }
        negate_cancelled(place, part, first);
        if (is_complex)
            negate_cancelled(place + gcoll_type_size(part), part, second);
    }
}

const unsigned char *bench_values_of(bench_values *values, int64_t owner) {
    if (owner == BENCH_RESULT)
        return values->result;
    if (owner == BENCH_GARBAGE) {
        memset(values->contributor, BENCH_POISON, BENCH_PERIOD * values->element_bytes);
        return values->contributor;
    }
    recipe r = {ranges[values->type], values->op, values->total};
    for (uint32_t i = 0; i < BENCH_PERIOD; i++) {
        store(values->contributor + i * values->element_bytes, values->type,
              contribution(&r, (uint64_t)owner, i));
    }
    return values->contributor;
}

void bench_values_free(bench_values *values) {
    free(values->result);
    free(values->contributor);
    values->result = NULL;
    values->contributor = NULL;
}

/* How many elements from `position` on, of `count`, until the pattern begins anew. */
static size_t stretch(uint64_t position, uint64_t count) {
    return (size_t)smaller(BENCH_PERIOD - position % BENCH_PERIOD, count);
}

void bench_fill(void *data, const unsigned char *pattern, size_t element_bytes, uint64_t position,
                uint64_t count) {
    unsigned char *to = data;
    while (count > 0) {
        size_t block = stretch(position, count);
        memcpy(to, pattern + position % BENCH_PERIOD * element_bytes, block * element_bytes);
        to += block * element_bytes;
        position += block;
        count -= block;
    }
}

static float single(const unsigned char *at) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

static bool is_wrong(const unsigned char *here, const unsigned char *right, size_t element_bytes,
                     double allowed) {
    if (memcmp(here, right, element_bytes) == 0)
        return false;
    return !(allowed > 0 && fabs((double)single(here) - (double)single(right)) <= allowed);
}

double bench_largest(bench_values *values) {
    double largest = 0;
    for (uint64_t g = 0; g < values->total; g++) {
        const unsigned char *pattern = bench_values_of(values, (int64_t)g);
        for (size_t i = 0; i < BENCH_PERIOD; i++)
            largest = fmax(largest, fabs((double)single(pattern + i * sizeof(float))));
    }
    return largest;
}

uint64_t bench_count_wrong(const void *data, const unsigned char *pattern, size_t element_bytes,
                           uint64_t position, uint64_t count, double allowed, uint64_t *first) {
    const unsigned char *from = data;
    uint64_t wrong = 0;
    for (uint64_t at = 0; at < count;) {
        size_t block = stretch(position + at, count - at);
        const unsigned char *here = from + at * element_bytes;
        const unsigned char *right = pattern + (position + at) % BENCH_PERIOD * element_bytes;
        bool same = memcmp(here, right, block * element_bytes) == 0;
        for (size_t i = 0; i < block && !same; i++)
            if (is_wrong(here + i * element_bytes, right + i * element_bytes, element_bytes, allowed) &&
                wrong++ == 0)
                *first = at + i;
        at += block;
    }
    return wrong;
}
