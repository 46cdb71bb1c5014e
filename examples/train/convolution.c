/* convolution.c - patches of an image side by side, so that a product of matrices convolves; and pooling. */
#include "convolution.h"

#include <string.h>

/* One row of one patch: which pixels of the image it covers, and how much lies beyond the border. */
typedef struct span {
    size_t skip;  /* pixels of the patch before the image begins */
    size_t count; /* pixels within the image; 0: none */
    size_t first; /* pixel of the image */
} span;

static span find_span(const picture *shape, size_t y, size_t x, size_t row) {
    const size_t half = shape->kernel / 2, side = shape->side;
    span s = {0, 0, 0};
    if (y + row < half || y + row - half >= side) {
        return s;
    }
    s.skip = x < half ? half - x : 0;
    const size_t left = x + s.skip - half;
    const size_t right = x + half + 1 < side ? x + half + 1 : side;
    s.count = right - left;
    s.first = (y + row - half) * side + left;
    return s;
}

void image_to_columns(const picture *shape, const real *image, real *columns) {
    const size_t channels = shape->channels, width = shape->kernel * channels;
    for (size_t y = 0; y < shape->side; y++) {
        for (size_t x = 0; x < shape->side; x++) {
            for (size_t row = 0; row < shape->kernel; row++, columns += width) {
                const span s = find_span(shape, y, x, row);
                if (s.count < shape->kernel) {
                    memset(columns, 0, width * sizeof(real));
                }
                memcpy(columns + s.skip * channels, image + s.first * channels,
                       s.count * channels * sizeof(real));
            }
        }
    }
}

void columns_to_image(const picture *shape, const real *columns, real *image) {
    const size_t channels = shape->channels, width = shape->kernel * channels;
    for (size_t y = 0; y < shape->side; y++) {
        for (size_t x = 0; x < shape->side; x++) {
            for (size_t row = 0; row < shape->kernel; row++, columns += width) {
                const span s = find_span(shape, y, x, row);
                const real *from = columns + s.skip * channels;
                real *to = image + s.first * channels;
                for (size_t i = 0; i < s.count * channels; i++) {
                    to[i] += from[i];
                }
            }
        }
    }
}

void pool(size_t side, size_t channels, const real *image, real *pooled, unsigned char *which) {
    const size_t places[4] = {0, channels, side * channels, (side + 1) * channels};
    for (size_t y = 0; y < side; y += 2) {
        for (size_t x = 0; x < side; x += 2) {
            const real *corner = image + (y * side + x) * channels;
            for (size_t c = 0; c < channels; c++) {
                unsigned char best = 0;
                for (unsigned char p = 1; p < 4; p++) {
                    best = corner[places[p] + c] > corner[places[best] + c] ? p : best;
                }
                *which++ = best;
                *pooled++ = corner[places[best] + c];
            }
        }
    }
}

void unpool(size_t side, size_t channels, const real *d_pooled, const unsigned char *which, real *d_image) {
    const size_t places[4] = {0, channels, side * channels, (side + 1) * channels};
    memset(d_image, 0, side * side * channels * sizeof(real));
    for (size_t y = 0; y < side; y += 2) {
        for (size_t x = 0; x < side; x += 2) {
            real *corner = d_image + (y * side + x) * channels;
            for (size_t c = 0; c < channels; c++) {
                corner[places[*which++] + c] = *d_pooled++;
            }
        }
    }
}
