/* real.h - the type that the network computes in: float, or double to check gradients with. */
#ifndef TRAIN_REAL_H
#define TRAIN_REAL_H

#ifdef TRAIN_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
