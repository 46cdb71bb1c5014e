/* matrix.h - the one product that all layers are made of. */
#ifndef TRAIN_MATRIX_H
#define TRAIN_MATRIX_H

#include <stddef.h>

#include "real.h"

/* A matrix to be read: element (i, j) is at data[i * row + j * column]. Its transpose is the same with row
 * and column exchanged. */
typedef struct matrix {
    const real *data;
    size_t row, column;
} matrix;

/* c += a b. a is m x k. b (k x n) and c (m x n) lie row by row without gaps. */
void matrix_multiply_add(size_t m, size_t n, size_t k, matrix a, const real *b, real *c);

/* to (n x m) is the transpose of from (m x n). */
void matrix_transpose(size_t m, size_t n, const real *from, real *to);

#endif
