/* network.h - a network that tells images apart, and the images it learns from. Plain C, for one process. */
#ifndef TRAIN_NETWORK_H
#define TRAIN_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type that the network computes in. Its test checks gradients, which takes double. */
#ifdef TRAIN_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* ---- Images: 32 x 32 pixels in three colours, in ten classes ------------------------------------- */

#define IMAGE_SIDE   32
#define COLOURS      3
#define IMAGE_PIXELS (IMAGE_SIDE * IMAGE_SIDE * COLOURS)
#define CLASSES      10

/* Images to train with are numbered from 0, those to test with from here. */
#define FIRST_TEST_IMAGE (UINT64_C(1) << 40)

uint32_t image_class(uint64_t number);

/* The IMAGE_PIXELS numbers of an image, with mean about 0. They depend on seed and number alone. */
void image_make(uint32_t seed, uint64_t number, real *pixels);

/* ---- The network: three convolutions and two connected layers, as in the paper ------------------- */

typedef struct network {
    size_t count;              /* of parameters */
    real *parameters;          /* of all layers, one behind the other */
    real *gradients;           /* sums of derivatives of the loss, in the same order */
    real likelihoods[CLASSES]; /* of the latest image */
    struct layer *layers;
} network;

/* channels: of the first convolution, 32 in the paper; the other widths follow from it. Parameters and
 * gradients are 0. False: no memory. network_free is due in any case. */
bool network_make(network *self, size_t channels);
void network_free(network *self);

/* Sets the parameters to random numbers, which depend on the seed alone. */
void network_initialise(network *self, uint32_t seed);

/* Returns the loss for an image. *right: whether its label came out as the most likely one. `pixels` has
 * IMAGE_PIXELS numbers. */
double network_forward(network *self, const real *pixels, uint32_t label, bool *right);

/* Adds `scale` times the derivatives of the latest image's loss to the gradients. */
void network_backward(network *self, uint32_t label, real scale);

#endif
