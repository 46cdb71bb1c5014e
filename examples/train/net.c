/* net.c - layers one after the other, and the loss at their end. */
#include "net.h"

#include <math.h>
#include <stdlib.h>

#include "random.h"

bool net_make(net *self, size_t channels) {
    const size_t last_side = IMAGE_SIDE / 8; /* after three poolings */
    *self = (net){.layers = {
                      {.kind = LAYER_CONVOLUTION, .side = 32, .inputs = COLOURS, .outputs = channels},
                      {.kind = LAYER_CONVOLUTION, .side = 16, .inputs = channels, .outputs = channels},
                      {.kind = LAYER_CONVOLUTION, .side = 8, .inputs = channels, .outputs = 2 * channels},
                      {.kind = LAYER_CONNECTED,
                       .side = 1,
                       .inputs = last_side * last_side * 2 * channels,
                       .outputs = 2 * channels},
                      {.kind = LAYER_SCORES, .side = 1, .inputs = 2 * channels, .outputs = CLASSES},
                  }};
    bool good = true;
    for (size_t l = 0; l < NET_LAYERS; l++) {
        self->layers[l].first = self->count;
        self->count += layer_parameters(&self->layers[l]);
        good = layer_allocate(&self->layers[l]) && good;
    }
    self->parameters = calloc(self->count, sizeof(real));
    self->gradients = calloc(self->count, sizeof(real));
    return good && self->parameters != NULL && self->gradients != NULL;
}

void net_free(net *self) {
    free(self->gradients);
    free(self->parameters);
    for (size_t l = NET_LAYERS; l-- > 0;) {
        layer_free(&self->layers[l]);
    }
}

/* Weights by He et al., "Delving deep into rectifiers" (2015): what goes through keeps its variance. Biases
 * are 0. */
void net_initialise(net *self, uint64_t seed) {
    for (size_t l = 0; l < NET_LAYERS; l++) {
        const layer *each = &self->layers[l];
        const size_t patch = layer_patch(each);
        const double deviation = sqrt(2.0 / (double)patch);
        random_stream numbers = random_begin(seed, RANDOM_WEIGHTS, l);
        for (size_t i = 0; i < patch * each->outputs; i++) {
            self->parameters[each->first + i] = (real)(deviation * random_normal(&numbers));
        }
        for (size_t o = 0; o < each->outputs; o++) {
            self->parameters[each->first + patch * each->outputs + o] = 0;
        }
    }
}

double net_forward(net *self, const real *pixels, uint32_t label, bool *right) {
    for (size_t l = 0; l < NET_LAYERS; l++) {
        layer_forward(&self->layers[l], self->parameters, pixels);
        pixels = self->layers[l].output;
    }
    uint32_t best = 0;
    for (uint32_t c = 1; c < CLASSES; c++) {
        best = pixels[c] > pixels[best] ? c : best;
    }
    double sum = 0;
    for (uint32_t c = 0; c < CLASSES; c++) {
        sum += exp((double)(pixels[c] - pixels[best])); /* at most 1, so nothing overflows */
    }
    for (uint32_t c = 0; c < CLASSES; c++) {
        self->likelihoods[c] = (real)(exp((double)(pixels[c] - pixels[best])) / sum);
    }
    *right = best == label;
    return log(sum) - (double)(pixels[label] - pixels[best]);
}

void net_backward(net *self, uint32_t label, real scale) {
    real *d_scores = self->layers[NET_LAYERS - 1].d_output;
    for (uint32_t c = 0; c < CLASSES; c++) {
        d_scores[c] = scale * (self->likelihoods[c] - (c == label ? 1 : 0));
    }
    for (size_t l = NET_LAYERS; l-- > 0;) {
        real *d_input = l > 0 ? self->layers[l - 1].d_output : NULL;
        layer_backward(&self->layers[l], self->parameters, self->gradients, d_input);
    }
}
