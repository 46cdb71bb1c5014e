/* network.c - layers one after the other, the loss at their end, and the images.
 *
 * A layer is a convolution: it multiplies the `kernel` x `kernel` pixels around each place of its image by
 * weights, adds biases, keeps the largest of each `window` x `window` places, and cuts off what is below
 * zero. A connected layer is one whose image has a single pixel. Images lie row by row, the channels of a
 * pixel together.
 *
 * With a patch as a row of a matrix, a layer is three products of matrices:
 *     sums = columns weights    d_weights += columns^T d_sums    d_columns = d_sums weights^T */
#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 5

typedef struct layer {
    size_t side, inputs;        /* of the image that goes in: its side and its channels */
    size_t outputs;             /* channels that come out */
    size_t kernel;              /* side of a patch, odd */
    size_t window;              /* side of the square of which the largest sum is kept: 1 or 2 */
    bool cuts;                  /* what is below zero */
    size_t places, patch, kept; /* places of the image; numbers in a patch; numbers that come out */
    size_t first;               /* of its parameters: patch x outputs weights, then outputs biases */
    /* Of the latest image: */
    real *columns; /* places x patch: the patch of each place as a row */
    real *sums;    /* places x outputs */
    real *output;
    unsigned char *largest; /* which sum of a window was kept */
    /* Derivatives of the loss by these: */
    real *d_columns, *d_sums, *d_output;
    real *transposed; /* the weights */
} layer;

/* ---- Random numbers ------------------------------------------------------------------------------
 *
 * splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). A stream depends
 * on its seed and number alone, so every rank has the same ones, in any order. */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static uint64_t random_stream(uint32_t seed, uint64_t number) {
    return mix(mix((uint64_t)seed + 1) + number + 1);
}

static uint64_t random_bits(uint64_t *stream) {
    *stream += 0x9e3779b97f4a7c15U;
    return mix(*stream);
}

static double random_between(uint64_t *stream, double low, double high) {
    return low + (high - low) * (double)(random_bits(stream) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1. The sum of four numbers of 16 bits is near enough to a normal distribution. */
static double random_normal(uint64_t *stream) {
    const uint64_t bits = random_bits(stream);
    const double sum =
        (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum / 65535 - 2) * 1.7320508075688772; /* the variance of the sum is 4/12 */
}

/* ---- Images --------------------------------------------------------------------------------------
 *
 * A class is a texture, stripes or spots, in one of five directions. Everything else is chance: place, width
 * and contrast of the texture, its two colours, noise. So no pixel and no colour tells the class by itself,
 * and neighbouring directions are easily mistaken. */

#define DIRECTIONS 5
#define PI         3.14159265358979323846
#define NOISE      0.35

uint32_t image_class(uint64_t number) {
    return (uint32_t)(number % CLASSES);
}

void image_make(uint32_t seed, uint64_t number, real *pixels) {
    const uint32_t label = image_class(number);
    const bool spots = label >= DIRECTIONS;
    uint64_t stream = random_stream(seed, number);
    const double degrees = 180.0 / DIRECTIONS * (label % DIRECTIONS) + random_between(&stream, -8, 8);
    const double radians = 2 * PI / random_between(&stream, 5, 9); /* a pixel */
    const double across_x = radians * cos(degrees * PI / 180), across_y = radians * sin(degrees * PI / 180);
    const double phase = random_between(&stream, 0, 2 * PI), cut_phase = random_between(&stream, 0, 2 * PI);
    double low[COLOURS], high[COLOURS];
    for (int c = 0; c < COLOURS; c++) {
        const double half = random_between(&stream, 0.3, 1) * (random_bits(&stream) & 1 ? 1 : -1);
        const double middle = random_between(&stream, -0.5, 0.5);
        low[c] = middle - half;
        high[c] = middle + half;
    }
    for (uint32_t y = 0; y < IMAGE_SIDE; y++) {
        for (uint32_t x = 0; x < IMAGE_SIDE; x++) {
            double height = 0.5 + 0.5 * sin(across_x * x + across_y * y + phase);
            if (spots) /* stripes that are cut by others, twice as wide, at a right angle */
                height *= 0.5 + 0.5 * sin((across_x * y - across_y * x) / 2 + cut_phase);
            for (int c = 0; c < COLOURS; c++) {
                const double colour = (1 - height) * low[c] + height * high[c];
                *pixels++ = (real)(colour + NOISE * random_normal(&stream));
            }
        }
    }
}

/* ---- Layers -------------------------------------------------------------------------------------- */

/* c += a b. a is m x k, its element (i, j) at a[i * row + j * column]. b (k x n) and c (m x n) lie row by row
 * without gaps. Four rows of b at a time, as each number of c is read and written once for them. */
static void multiply_add(size_t m, size_t n, size_t k, const real *a, size_t row, size_t column,
                         const real *b, real *restrict c) {
    for (size_t i = 0; i < m; i++, a += row, c += n) {
        size_t p = 0;
        for (; p + 4 <= k; p += 4) {
            const real *restrict right = b + p * n;
            const real a0 = a[p * column], a1 = a[(p + 1) * column];
            const real a2 = a[(p + 2) * column], a3 = a[(p + 3) * column];
            for (size_t j = 0; j < n; j++)
                c[j] += a0 * right[j] + a1 * right[n + j] + a2 * right[2 * n + j] + a3 * right[3 * n + j];
        }
        for (; p < k; p++)
            for (size_t j = 0; j < n; j++)
                c[j] += a[p * column] * b[p * n + j];
    }
}

#define BEYOND SIZE_MAX /* the border of the image, where zeros stand */

/* The pixel that is number i of the patch around a place: where it begins in the image, or BEYOND. */
static size_t pixel_at(const layer *l, size_t place, size_t i) {
    const size_t half = l->kernel / 2;
    const size_t y = place / l->side + i / l->kernel - half, x = place % l->side + i % l->kernel - half;
    return y < l->side && x < l->side ? (y * l->side + x) * l->inputs : BEYOND;
}

static void image_to_columns(layer *l, const real *image) {
    const size_t area = l->kernel * l->kernel;
    real *to = l->columns;
    for (size_t place = 0; place < l->places; place++) {
        for (size_t i = 0; i < area; i++, to += l->inputs) {
            const size_t first = pixel_at(l, place, i);
            if (first != BEYOND) /* else the columns are 0 from the beginning */
                memcpy(to, image + first, l->inputs * sizeof(real));
        }
    }
}

/* The reverse: each number of d_image is the sum of those of d_columns that were copied from it. */
static void columns_to_image(const layer *l, real *d_image) {
    const size_t area = l->kernel * l->kernel;
    const real *from = l->d_columns;
    memset(d_image, 0, l->places * l->inputs * sizeof(real));
    for (size_t place = 0; place < l->places; place++) {
        for (size_t i = 0; i < area; i++, from += l->inputs) {
            const size_t first = pixel_at(l, place, i);
            for (size_t c = 0; first != BEYOND && c < l->inputs; c++)
                d_image[first + c] += from[c];
        }
    }
}

/* From sums to output. */
static void keep_largest(layer *l) {
    const size_t across = l->side / l->window, n = l->outputs;
    const unsigned char area = l->window == 2 ? 4 : 1;
    const size_t at[4] = {0, n, l->side * n, (l->side + 1) * n}; /* the sums of a window, from its corner */
    for (size_t w = 0; w < across * across; w++) {
        const real *corner = l->sums + (w / across * l->side + w % across) * l->window * n;
        for (size_t o = 0; o < n; o++) {
            unsigned char best = 0;
            for (unsigned char p = 1; p < area; p++)
                best = corner[at[p] + o] > corner[at[best] + o] ? p : best;
            const real largest = corner[at[best] + o];
            l->largest[w * n + o] = best;
            l->output[w * n + o] = l->cuts && !(largest > 0) ? 0 : largest;
        }
    }
}

/* The reverse: a derivative goes to the sum that was kept, unless it was cut off; the others are 0. */
static void spread_derivatives(layer *l) {
    const size_t across = l->side / l->window, n = l->outputs;
    const size_t at[4] = {0, n, l->side * n, (l->side + 1) * n};
    memset(l->d_sums, 0, l->places * n * sizeof(real));
    for (size_t w = 0; w < across * across; w++) {
        real *corner = l->d_sums + (w / across * l->side + w % across) * l->window * n;
        for (size_t o = 0; o < n; o++) {
            const size_t i = w * n + o;
            corner[at[l->largest[i]] + o] = l->cuts && !(l->output[i] > 0) ? 0 : l->d_output[i];
        }
    }
}

static void layer_forward(layer *l, const real *parameters, const real *input) {
    const real *weights = parameters + l->first, *biases = weights + l->patch * l->outputs;
    image_to_columns(l, input);
    for (size_t p = 0; p < l->places; p++)
        memcpy(l->sums + p * l->outputs, biases, l->outputs * sizeof(real));
    multiply_add(l->places, l->outputs, l->patch, l->columns, l->patch, 1, weights, l->sums);
    keep_largest(l);
}

/* From d_output: adds to gradients; sets d_input, unless that is NULL. */
static void layer_backward(layer *l, const real *parameters, real *gradients, real *d_input) {
    real *d_weights = gradients + l->first, *d_biases = d_weights + l->patch * l->outputs;
    spread_derivatives(l);
    multiply_add(l->patch, l->outputs, l->places, l->columns, 1, l->patch, l->d_sums, d_weights);
    for (size_t p = 0; p < l->places; p++)
        for (size_t o = 0; o < l->outputs; o++)
            d_biases[o] += l->d_sums[p * l->outputs + o];
    if (d_input) {
        for (size_t i = 0; i < l->patch * l->outputs; i++)
            l->transposed[i % l->outputs * l->patch + i / l->outputs] = parameters[l->first + i];
        memset(l->d_columns, 0, l->places * l->patch * sizeof(real));
        multiply_add(l->places, l->patch, l->outputs, l->d_sums, l->outputs, 1, l->transposed, l->d_columns);
        columns_to_image(l, d_input);
    }
}

/* ---- The network --------------------------------------------------------------------------------- */

/* Layer i: of an image of side x side pixels with so many channels. */
static bool make_layer(network *self, size_t i, size_t side, size_t inputs, size_t outputs, size_t kernel,
                       size_t window) {
    layer *l = &self->layers[i];
    *l = (layer){.side = side, .inputs = inputs, .outputs = outputs, .kernel = kernel, .window = window};
    l->cuts = i + 1 < LAYERS;
    l->places = side * side;
    l->patch = kernel * kernel * inputs;
    l->kept = l->places / (window * window) * outputs;
    l->first = self->count;
    self->count += (l->patch + 1) * outputs;
    const size_t columns = l->places * l->patch, sums = l->places * outputs;
    l->columns = calloc(2 * (columns + sums + l->kept) + l->patch * outputs, sizeof(real)); /* and the rest */
    l->largest = calloc(l->kept, 1);
    if (!l->columns || !l->largest)
        return false;
    l->d_columns = l->columns + columns;
    l->sums = l->d_columns + columns;
    l->d_sums = l->sums + sums;
    l->output = l->d_sums + sums;
    l->d_output = l->output + l->kept;
    l->transposed = l->d_output + l->kept;
    return true;
}

bool network_make(network *self, size_t channels) {
    *self = (network){.layers = calloc(LAYERS, sizeof *self->layers)};
    const bool good = self->layers && make_layer(self, 0, 32, COLOURS, channels, 5, 2) &&
                      make_layer(self, 1, 16, channels, channels, 5, 2) &&
                      make_layer(self, 2, 8, channels, 2 * channels, 5, 2) &&
                      make_layer(self, 3, 1, 4 * 4 * 2 * channels, 2 * channels, 1, 1) &&
                      make_layer(self, 4, 1, 2 * channels, CLASSES, 1, 1);
    self->parameters = calloc(self->count, sizeof(real));
    self->gradients = calloc(self->count, sizeof(real));
    return good && self->parameters && self->gradients;
}

void network_free(network *self) {
    for (size_t i = 0; self->layers && i < LAYERS; i++) {
        free(self->layers[i].columns);
        free(self->layers[i].largest);
    }
    free(self->gradients);
    free(self->parameters);
    free(self->layers);
}

/* Weights by He et al., "Delving deep into rectifiers" (2015): what goes through keeps its variance. Biases
 * are 0. */
void network_initialise(network *self, uint32_t seed) {
    memset(self->parameters, 0, self->count * sizeof(real));
    for (size_t i = 0; i < LAYERS; i++) {
        const layer *l = &self->layers[i];
        const double deviation = sqrt(2.0 / (double)l->patch);
        uint64_t stream = random_stream(seed, UINT64_MAX - i);
        for (size_t w = 0; w < l->patch * l->outputs; w++)
            self->parameters[l->first + w] = (real)(deviation * random_normal(&stream));
    }
}

double network_forward(network *self, const real *pixels, uint32_t label, bool *right) {
    for (size_t i = 0; i < LAYERS; i++) {
        layer_forward(&self->layers[i], self->parameters, pixels);
        pixels = self->layers[i].output;
    }
    const real *scores = pixels;
    uint32_t best = 0;
    for (uint32_t c = 1; c < CLASSES; c++)
        best = scores[c] > scores[best] ? c : best;
    double sum = 0;
    for (uint32_t c = 0; c < CLASSES; c++)
        sum += exp((double)(scores[c] - scores[best])); /* at most 1, so nothing overflows */
    for (uint32_t c = 0; c < CLASSES; c++)
        self->likelihoods[c] = (real)(exp((double)(scores[c] - scores[best])) / sum);
    *right = best == label;
    return log(sum) - (double)(scores[label] - scores[best]);
}

void network_backward(network *self, uint32_t label, real scale) {
    real *d_scores = self->layers[LAYERS - 1].d_output;
    for (uint32_t c = 0; c < CLASSES; c++)
        d_scores[c] = scale * (self->likelihoods[c] - (c == label ? 1 : 0));
    for (size_t i = LAYERS; i-- > 0;) {
        real *d_input = i > 0 ? self->layers[i - 1].d_output : NULL;
        layer_backward(&self->layers[i], self->parameters, self->gradients, d_input);
    }
}
