/* matrix.c - a product in tiles: a tile of c stays in registers while k runs, and the columns of b that it
 * needs stay in the cache while the tiles go down. */
#include "matrix.h"

/* Numbers that are added and multiplied at once: an extension of gcc and clang, for any processor. */
#define LANES_BYTES 16
typedef real lanes __attribute__((vector_size(LANES_BYTES), aligned(sizeof(real)), may_alias));

#define ROWS    4
#define COLUMNS (2 * LANES_BYTES / sizeof(real))

static void whole_tile(size_t n, size_t k, matrix a, const real *restrict b, real *restrict c) {
    lanes sum[ROWS][2] = {{{0}}};
    for (size_t p = 0; p < k; p++) {
        const lanes *right = (const lanes *)(const void *)(b + p * n);
        for (size_t i = 0; i < ROWS; i++) {
            const real left = a.data[i * a.row + p * a.column];
            sum[i][0] += left * right[0];
            sum[i][1] += left * right[1];
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        lanes *to = (lanes *)(void *)(c + i * n);
        to[0] += sum[i][0];
        to[1] += sum[i][1];
    }
}

/* At the edges: m <= ROWS, w <= COLUMNS columns of n. */
static void part_tile(size_t m, size_t w, size_t n, size_t k, matrix a, const real *restrict b,
                      real *restrict c) {
    for (size_t i = 0; i < m; i++) {
        for (size_t p = 0; p < k; p++) {
            const real left = a.data[i * a.row + p * a.column];
            for (size_t j = 0; j < w; j++) {
                c[i * n + j] += left * b[p * n + j];
            }
        }
    }
}

void matrix_multiply_add(size_t m, size_t n, size_t k, matrix a, const real *b, real *c) {
    for (size_t j = 0; j < n; j += COLUMNS) {
        const size_t width = n - j < COLUMNS ? n - j : COLUMNS;
        for (size_t i = 0; i < m; i += ROWS) {
            const size_t height = m - i < ROWS ? m - i : ROWS;
            const matrix rows = {a.data + i * a.row, a.row, a.column};
            if (height == ROWS && width == COLUMNS) {
                whole_tile(n, k, rows, b + j, c + i * n + j);
            } else {
                part_tile(height, width, n, k, rows, b + j, c + i * n + j);
            }
        }
    }
}

void matrix_transpose(size_t m, size_t n, const real *from, real *to) {
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            to[j * m + i] = from[i * n + j];
        }
    }
}
