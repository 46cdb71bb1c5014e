/* net.h - the network: three convolutions and two connected layers, as in the paper (README.md). */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"
#include "layer.h"

#define NET_LAYERS 5

typedef struct net {
    layer layers[NET_LAYERS];
    size_t count;              /* of parameters */
    real *parameters;          /* of all layers, one behind the other ... */
    real *gradients;           /* ... and sums of derivatives of the loss by them */
    real likelihoods[CLASSES]; /* of the latest image */
} net;

/* channels: of the first convolution, 32 in the paper; the others follow from it. False: no memory. net_free
 * is due in any case. */
bool net_make(net *self, size_t channels);
void net_free(net *self);

/* Sets the parameters to random numbers, which depend on the seed alone. */
void net_initialise(net *self, uint64_t seed);

/* The loss for this image (pixels: IMAGE_PIXELS numbers, to stay until net_backward), and whether its label
 * was found the most likely. */
double net_forward(net *self, const real *pixels, uint32_t label, bool *right);

/* Adds to the gradients those of `scale` times the loss of the latest image. */
void net_backward(net *self, uint32_t label, real scale);

#endif
