/* layer.h - what the network is made of, for one image at a time.
 *
 * A layer multiplies by weights, adds biases, and cuts off what is below zero. A convolution does so at each
 * place of an image, with the KERNEL x KERNEL pixels around it, and then keeps the largest of each 2 x 2
 * places. A connected layer does so once, with all it is given. Images lie row by row, the channels of a
 * pixel together. */
#ifndef TRAIN_LAYER_H
#define TRAIN_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "real.h"

#define KERNEL 5

typedef enum layer_kind {
    LAYER_CONVOLUTION,
    LAYER_CONNECTED,
    LAYER_SCORES /* connected, and cuts nothing off */
} layer_kind;

typedef struct layer {
    layer_kind kind;
    size_t side;            /* of the image that goes in; 1 if connected */
    size_t inputs, outputs; /* channels */
    size_t first;           /* of its parameters: layer_patch x outputs weights, then outputs biases */
    /* Of the latest image: */
    const real *input;
    real *columns;          /* convolution: the patch of each place as a row */
    real *sums;             /* places x outputs */
    unsigned char *largest; /* convolution: which of four sums was kept */
    real *output;
    /* Derivatives of the loss by: */
    real *d_columns, *d_sums, *d_output;
    real *transposed; /* the weights */
} layer;

size_t layer_patch(const layer *self);        /* numbers that one output is made of */
size_t layer_output_count(const layer *self); /* numbers that come out for an image */
size_t layer_parameters(const layer *self);

/* False: no memory. layer_free is due in any case. */
bool layer_allocate(layer *self);
void layer_free(layer *self);

/* From input, which must stay, to self->output. */
void layer_forward(layer *self, const real *parameters, const real *input);

/* From self->d_output, which it overwrites: adds to gradients; sets d_input, unless that is NULL. */
void layer_backward(layer *self, const real *parameters, real *gradients, real *d_input);

#endif
