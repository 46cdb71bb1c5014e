/* data.h - the images: 32 x 32 pixels in three colours, in ten classes. They are made when they are needed.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdint.h>

#include "real.h"

#define IMAGE_SIDE   32
#define COLOURS      3
#define IMAGE_PIXELS (IMAGE_SIDE * IMAGE_SIDE * COLOURS)
#define CLASSES      10

/* Images for training are numbered from 0, those for testing from here. */
#define DATA_TEST (UINT64_C(1) << 40)

/* The class of an image. */
uint32_t data_class(uint64_t number);

/* Its IMAGE_PIXELS numbers, which depend on seed and number alone, with mean about 0. */
void data_image(uint64_t seed, uint64_t number, real *pixels);

/* order: the numbers below count as they come in this epoch. */
void data_order(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t *order);

#endif
