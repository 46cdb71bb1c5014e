/*
 * transport/choice.h - parses options.transport: which lanes move the data, and their options.
 *
 * The text is "auto", or lanes by preference, each with options: "ibverbs:device=mlx5_0:gid=3,tcp". A lane
 * declares its options in a const table. The parser, the errors, the environment variables, the help of
 * gcoll_bench and the tables in docs/ all come from it.
 *
 * An option is given in up to three places, of which the first counts: the text, a field of the lane's struct
 * of options (gcoll_ibverbs_options), an environment variable. Else it has its default.
 */
#ifndef GCOLL_CHOICE_H
#define GCOLL_CHOICE_H

#include "gcoll/base/base.h"

/* Longest text, with its NUL. */
#define GCOLL_LANES_TEXT_MAX 512
/* Most lanes of a text. */
#define GCOLL_LANES_MAX 8
/* Most options of a lane. */
#define GCOLL_LANE_OPTIONS_MAX 16
/* Room for all values of one lane that are texts, each with its NUL. */
#define GCOLL_LANE_TEXTS_MAX 128
/* Longest value that is a text, with its NUL. */
#define GCOLL_LANE_VALUE_MAX 64
/* Room for what gcoll_lane_allowed says. */
#define GCOLL_LANE_ALLOWED_MAX 160

typedef enum gcoll_lane_form {
    GCOLL_LANE_WHOLE, /* a number: "3", "0x8001" */
    GCOLL_LANE_SIZE,  /* a number of bytes: "65536", "64Ki", "64k"; K, M and G are 2^10, 2^20 and 2^30 */
    GCOLL_LANE_TEXT,  /* up to GCOLL_LANE_VALUE_MAX - 1 printable characters, and in a text no ',' or ':' */
    GCOLL_LANE_WORD,  /* one of `words`, or its index */
    GCOLL_LANE_FLAG   /* "on" or "off", 1 or 0; without a value: on */
} gcoll_lane_form;

typedef struct gcoll_lane_option {
    const char *name;         /* "gid" */
    const char *help;         /* one line, not NULL */
    const char *initial;      /* the default, in words or as it would be given; not NULL */
    const char *variable;     /* environment variable, or NULL */
    const char *field;        /* name in the lane's struct of options; NULL: not there */
    size_t at, bytes;         /* where and how long the field is: 4 or 8 bytes, or a const char * */
    const char *const *words; /* WORD: NULL-terminated */
    const uint64_t *values;   /* WHOLE, SIZE: NULL, or the numbers allowed, ended by 0 */
    int64_t least, most;      /* WHOLE, SIZE: inclusive */
    int64_t unset;            /* a number that asks for the default. May be out of the range: 0, -1 */
    int64_t fallback;         /* the default. `unset`, if the lane finds it out */
    gcoll_lane_form form;
} gcoll_lane_option;

/* Rows that lanes have in common, for their tables. `usual`: the default, as it would be given. */
#define GCOLL_LANE_EAGER_OPTION(usual)                                                                       \
    {                                                                                                        \
        .name = "eager_bytes", .form = GCOLL_LANE_SIZE, .least = 1, .most = INT64_C(1) << 30,                \
        .help = "messages up to this size are sent before the receiver asks", .initial = (usual)             \
    }
#define GCOLL_LANE_POOL_OPTION                                                                               \
    {                                                                                                        \
        .name = "pool_bytes", .form = GCOLL_LANE_SIZE, .least = INT64_C(1) << 10, .most = INT64_C(1) << 31,  \
        .help = "most bytes held for one peer that no operation waits for yet", .initial = "4Mi"             \
    }

typedef struct gcoll_lane_row {
    const char *name;                 /* that of the transport */
    const gcoll_lane_option *options; /* ended by name NULL; NULL: none */
    const struct gcoll_lane *lane;    /* transport/lane.h; NULL: it goes with no other */
} gcoll_lane_row;

/* A lane that a text names, with its options. Holds copies, and may be copied itself. */
typedef struct gcoll_lane_choice {
    const gcoll_lane_row *lane;
    uint32_t given;                        /* a bit for each option that the text gives */
    int64_t value[GCOLL_LANE_OPTIONS_MAX]; /* of those; of a text: where it begins in `texts` */
    char texts[GCOLL_LANE_TEXTS_MAX];
} gcoll_lane_choice;

/* The lanes of this library, and the transport inproc, in the order of gcoll_transports; ended by name NULL.
 */
extern const gcoll_lane_row gcoll_lane_rows[];

/* Parses a text. *count is 0 for "auto"; else *choices are that many lanes by preference, which the caller
 * frees. from: names the text in errors ("options.transport"). INVALID: the text, with what is allowed;
 * NO_MEMORY. */
gcoll_status gcoll_lanes_parse(const gcoll_lane_row *lanes, const char *from, const char *text,
                               gcoll_lane_choice **choices, uint32_t *count);

/* The value of an option that is no text. False if the text does not give it. */
bool gcoll_lane_number(const gcoll_lane_choice *choice, const char *option, int64_t *value);

/* Fills the fields of a lane's struct of options: from the choice (NULL: gives nothing), else from the struct
 * `given` (NULL: gives nothing), else from the environment if by_environment, else with the defaults. `to`
 * may be `given`. Texts stay those of the choice, the struct or the environment. from: names the struct in
 * errors ("options.ibverbs"). INVALID names the field or the variable. */
gcoll_status gcoll_lane_complete(const gcoll_lane_option *options, const gcoll_lane_choice *choice,
                                 const char *from, const void *given, bool by_environment, void *to);

/* What an option may be: "0 to 255, and -1 for the default". */
void gcoll_lane_allowed(const gcoll_lane_option *option, char text[GCOLL_LANE_ALLOWED_MAX]);

#endif
