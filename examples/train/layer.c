/* layer.c - one layer forward and backward. With a patch as a row of a matrix, all three products of a layer
 * are of one kind:   sums = columns weights   d_weights += columns^T d_sums   d_columns = d_sums weights^T */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

#include "convolution.h"
#include "matrix.h"

size_t layer_patch(const layer *self) {
    return self->kind == LAYER_CONVOLUTION ? KERNEL * KERNEL * self->inputs : self->inputs;
}

static size_t places(const layer *self) {
    return self->side * self->side;
}

size_t layer_output_count(const layer *self) {
    return self->kind == LAYER_CONVOLUTION ? places(self) / 4 * self->outputs : self->outputs;
}

size_t layer_parameters(const layer *self) {
    return (layer_patch(self) + 1) * self->outputs;
}

static picture shape_of(const layer *self) {
    return (picture){.side = self->side, .channels = self->inputs, .kernel = KERNEL};
}

bool layer_allocate(layer *self) {
    const size_t patch = layer_patch(self), sums = places(self) * self->outputs;
    self->sums = calloc(sums, sizeof(real));
    self->d_sums = calloc(sums, sizeof(real));
    self->transposed = calloc(patch * self->outputs, sizeof(real));
    bool good = self->sums != NULL && self->d_sums != NULL && self->transposed != NULL;
    if (self->kind != LAYER_CONVOLUTION) {
        self->output = self->sums;
        self->d_output = self->d_sums;
        return good;
    }
    self->columns = calloc(places(self) * patch, sizeof(real));
    self->d_columns = calloc(places(self) * patch, sizeof(real));
    self->largest = calloc(layer_output_count(self), 1);
    self->output = calloc(layer_output_count(self), sizeof(real));
    self->d_output = calloc(layer_output_count(self), sizeof(real));
    return good && self->columns != NULL && self->d_columns != NULL && self->largest != NULL &&
           self->output != NULL && self->d_output != NULL;
}

void layer_free(layer *self) {
    if (self->kind == LAYER_CONVOLUTION) {
        free(self->d_output);
        free(self->output);
        free(self->largest);
        free(self->d_columns);
        free(self->columns);
    }
    free(self->transposed);
    free(self->d_sums);
    free(self->sums);
}

void layer_forward(layer *self, const real *parameters, const real *input) {
    const size_t patch = layer_patch(self), outputs = self->outputs;
    const real *weights = parameters + self->first, *biases = weights + patch * outputs;
    const real *columns = input;
    self->input = input;
    if (self->kind == LAYER_CONVOLUTION) {
        const picture shape = shape_of(self);
        image_to_columns(&shape, input, self->columns);
        columns = self->columns;
    }
    for (size_t p = 0; p < places(self); p++) {
        memcpy(self->sums + p * outputs, biases, outputs * sizeof(real));
    }
    matrix_multiply_add(places(self), outputs, patch, (matrix){columns, patch, 1}, weights, self->sums);
    if (self->kind == LAYER_CONVOLUTION) {
        pool(self->side, outputs, self->sums, self->output, self->largest);
    }
    if (self->kind != LAYER_SCORES) {
        for (size_t i = 0; i < layer_output_count(self); i++) {
            self->output[i] = self->output[i] > 0 ? self->output[i] : 0;
        }
    }
}

/* From d_output to d_sums. */
static void backward_to_sums(layer *self) {
    if (self->kind != LAYER_SCORES) {
        for (size_t i = 0; i < layer_output_count(self); i++) {
            self->d_output[i] = self->output[i] > 0 ? self->d_output[i] : 0;
        }
    }
    if (self->kind == LAYER_CONVOLUTION) {
        unpool(self->side, self->outputs, self->d_output, self->largest, self->d_sums);
    }
}

static void backward_to_input(layer *self, const real *weights, real *d_input) {
    const size_t patch = layer_patch(self), outputs = self->outputs;
    const bool convolution = self->kind == LAYER_CONVOLUTION;
    real *d_columns = convolution ? self->d_columns : d_input;
    matrix_transpose(patch, outputs, weights, self->transposed);
    memset(d_columns, 0, places(self) * patch * sizeof(real));
    matrix_multiply_add(places(self), patch, outputs, (matrix){self->d_sums, outputs, 1}, self->transposed,
                        d_columns);
    if (convolution) {
        const picture shape = shape_of(self);
        memset(d_input, 0, places(self) * self->inputs * sizeof(real));
        columns_to_image(&shape, d_columns, d_input);
    }
}

void layer_backward(layer *self, const real *parameters, real *gradients, real *d_input) {
    const size_t patch = layer_patch(self), outputs = self->outputs;
    const real *columns = self->kind == LAYER_CONVOLUTION ? self->columns : self->input;
    real *d_weights = gradients + self->first, *d_biases = d_weights + patch * outputs;
    backward_to_sums(self);
    matrix_multiply_add(patch, outputs, places(self), (matrix){columns, 1, patch}, self->d_sums, d_weights);
    for (size_t p = 0; p < places(self); p++) {
        for (size_t o = 0; o < outputs; o++) {
            d_biases[o] += self->d_sums[p * outputs + o];
        }
    }
    if (d_input != NULL) {
        backward_to_input(self, parameters + self->first, d_input);
    }
}
