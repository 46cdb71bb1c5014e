/* data.c - a class is a texture, stripes or spots, in one of five directions. All else is chance and says
 * nothing: place, width and contrast of the texture, its two colours, a patch of a third colour that hides a
 * part of it, noise. So no pixel and no colour tells the class by itself, and neighbouring directions are
 * easily mistaken. */
#include "data.h"

#include <math.h>

#include "random.h"

#define DIRECTIONS 5
#define PI         3.14159265358979323846
#define NOISE      0.35

typedef struct texture {
    double across_x, across_y; /* radians per pixel */
    double phase, other_phase;
    int spots;
    double colours[3][COLOURS]; /* of its valleys, of its hills, of the patch */
    uint32_t patch_x, patch_y, patch_side;
} texture;

uint32_t data_class(uint64_t number) {
    return (uint32_t)(number % CLASSES);
}

static texture make_texture(uint32_t label, random_stream *numbers) {
    texture t;
    const double degrees = 180.0 / DIRECTIONS * (label % DIRECTIONS) + random_between(numbers, -8, 8);
    const double wave = random_between(numbers, 5, 9); /* pixels */
    t.across_x = 2 * PI / wave * cos(degrees * PI / 180);
    t.across_y = 2 * PI / wave * sin(degrees * PI / 180);
    t.phase = random_between(numbers, 0, 2 * PI);
    t.other_phase = random_between(numbers, 0, 2 * PI);
    t.spots = label >= DIRECTIONS;
    for (int c = 0; c < COLOURS; c++) {
        const double half = random_between(numbers, 0.3, 1) * (random_below(numbers, 2) ? 1 : -1);
        const double middle = random_between(numbers, -0.5, 0.5);
        t.colours[0][c] = middle - half;
        t.colours[1][c] = middle + half;
        t.colours[2][c] = random_between(numbers, -1, 1);
    }
    t.patch_side = 6 + random_below(numbers, 8);
    t.patch_x = random_below(numbers, IMAGE_SIDE - t.patch_side);
    t.patch_y = random_below(numbers, IMAGE_SIDE - t.patch_side);
    return t;
}

/* From 0 in a valley to 1 on a hill. Spots are stripes that are cut by others, twice as wide, at a right
 * angle. */
static double height_at(const texture *t, uint32_t x, uint32_t y) {
    const double stripes = 0.5 + 0.5 * sin(t->across_x * x + t->across_y * y + t->phase);
    if (!t->spots) {
        return stripes;
    }
    return stripes * (0.5 + 0.5 * sin((t->across_x * y - t->across_y * x) / 2 + t->other_phase));
}

void data_image(uint64_t seed, uint64_t number, real *pixels) {
    random_stream numbers = random_begin(seed, RANDOM_IMAGE, number);
    const texture t = make_texture(data_class(number), &numbers);
    for (uint32_t y = 0; y < IMAGE_SIDE; y++) {
        for (uint32_t x = 0; x < IMAGE_SIDE; x++) {
            const int hidden = x - t.patch_x < t.patch_side && y - t.patch_y < t.patch_side;
            const double height = height_at(&t, x, y);
            for (int c = 0; c < COLOURS; c++) {
                const double seen = (1 - height) * t.colours[0][c] + height * t.colours[1][c];
                *pixels++ = (real)((hidden ? t.colours[2][c] : seen) + NOISE * random_normal(&numbers));
            }
        }
    }
}

void data_order(uint64_t seed, uint32_t epoch, uint32_t count, uint32_t *order) {
    random_stream numbers = random_begin(seed, RANDOM_ORDER, epoch);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t other = random_below(&numbers, i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
