/* progress.c - the bar is drawn ten times a second at most. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "pace.h"

#define WIDTH 30

progress progress_begin(bool wanted, uint32_t epoch, uint32_t epochs, uint32_t steps) {
    return (progress){
        .shown = wanted && isatty(STDERR_FILENO), .epoch = epoch, .epochs = epochs, .steps = steps};
}

void progress_step(progress *self, uint32_t done, double loss) {
    if (!self->shown || clock_now() - self->drawn_at < 0.1) {
        return;
    }
    static const char full[WIDTH + 1] = "##############################";
    const int filled = (int)((uint64_t)done * WIDTH / self->steps);
    (void)fprintf(stderr, "\repoch %u/%u  [%-*.*s] %u/%u  loss %.3f ", self->epoch, self->epochs, WIDTH,
                  filled, full, done, self->steps, loss);
    (void)fflush(stderr);
    self->drawn_at = clock_now();
}

void progress_end(const progress *self) {
    if (self->shown) {
        (void)fprintf(stderr, "\r\033[K"); /* clears the line */
    }
}
