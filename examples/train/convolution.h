/* convolution.h - a convolution as a product of matrices. */
#ifndef TRAIN_CONVOLUTION_H
#define TRAIN_CONVOLUTION_H

#include <stddef.h>

#include "real.h"

/* An image of side x side pixels; zeros stand beyond its border. */
typedef struct picture {
    size_t side, channels, kernel; /* kernel: side of a patch, odd */
} picture;

/* Row p of columns: the patch around pixel p, kernel * kernel * channels numbers. */
void image_to_columns(const picture *shape, const real *image, real *columns);

/* The reverse, for gradients: adds each number of columns to the pixel that it was copied from. */
void columns_to_image(const picture *shape, const real *columns, real *image);

/* The largest of each 2 x 2 pixels, channel by channel; which: 0 to 3, where it stood. */
void pool(size_t side, size_t channels, const real *image, real *pooled, unsigned char *which);

/* The reverse: d_image is 0 but where the largest stood. */
void unpool(size_t side, size_t channels, const real *d_pooled, const unsigned char *which, real *d_image);

#endif
