/* tools/list.c - the algorithms there are. */
#include <json-c/json.h>
#include <string.h>

#include "gcoll/plan/steps.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/words.h"

/* Claims are shown for these: a prime and a power of two. */
static const uint32_t samples[] = {7, 8};
#define SAMPLE_COUNT (sizeof samples / sizeof samples[0])
#define SAMPLE_CHUNK 24u /* elements a rank: enough for every block to have some */

/* Finds the claims for a number of ranks. False: the algorithm does not apply to it; see the last error. */
static bool claims_of(const gcoll_algorithm *a, uint32_t size, uint32_t *claims) {
    gcoll_problem p = {.collective = a->collective, .size = size, .buffers = 1};
    p.count = a->collective == GCOLL_BARRIER ? 0 : (uint64_t)size * SAMPLE_CHUNK;
    for (uint32_t i = 0; a->options && a->options[i].name; i++)
        p.option[i] = a->options[i].fallback;
    if (a->applies && a->applies(&p) != GCOLL_OK)
        return false;
    *claims = gcoll_algorithm_claims(a, &p);
    return true;
}

static void print_claims(FILE *file, const gcoll_algorithm *a) {
    char text[SAMPLE_COUNT][TOOL_TEXT];
    for (size_t s = 0; s < SAMPLE_COUNT; s++) {
        uint32_t claims = 0;
        if (claims_of(a, samples[s], &claims))
            tool_claims_text(claims, text[s]);
        else
            snprintf(text[s], TOOL_TEXT, "does not apply: %.400s", gcoll_last_error());
    }
    if (strcmp(text[0], text[1]) == 0) {
        fprintf(file, "      claims   %s\n", text[0]);
        return;
    }
    for (size_t s = 0; s < SAMPLE_COUNT; s++)
        fprintf(file, "      %s   %u ranks: %s\n", s == 0 ? "claims" : "      ", samples[s], text[s]);
}

static bool takes_codec(const gcoll_algorithm *a) {
    return a->takes_codec && gcoll_collective_takes_codec(a->collective);
}

static void print_row(FILE *file, const gcoll_algorithm *a) {
    char allowed[TOOL_TEXT], fallback[TOOL_TEXT];
    fprintf(file, "  %s\n      %s\n      source   %s\n", a->name, a->summary, a->source);
    for (const gcoll_option *o = a->options; o && o->name; o++) {
        tool_allowed_text(o, allowed);
        tool_fallback_text(o, fallback);
        fprintf(file, "      option   %s=%s: %s (allowed: %s)\n", o->name, fallback, o->help, allowed);
    }
    print_claims(file, a);
    if (takes_codec(a))
        fprintf(file, "      codec    may be given\n");
}

/* ---- JSON -----------------------------------------------------------------------------------------------
 */

static struct json_object *json_of_option(const gcoll_option *o) {
    struct json_object *object = json_object_new_object(), *words;
    json_object_object_add(object, "name", json_object_new_string(o->name));
    json_object_object_add(object, "help", json_object_new_string(o->help));
    if (o->words) {
        words = json_object_new_array();
        for (uint32_t i = 0; o->words[i]; i++)
            json_object_array_add(words, json_object_new_string(o->words[i]));
        json_object_object_add(object, "fallback", json_object_new_string(o->words[o->fallback]));
        json_object_object_add(object, "allowed", words);
        return object;
    }
    json_object_object_add(object, "fallback", json_object_new_int64(o->fallback));
    json_object_object_add(object, "min", json_object_new_int64(o->min));
    json_object_object_add(object, "max", json_object_new_int64(o->max));
    json_object_object_add(object, "by_cost", json_object_new_boolean(o->min == GCOLL_BY_COST));
    return object;
}

static struct json_object *json_of_claims(uint32_t claims) {
    struct json_object *array = json_object_new_array();
    const char *name;
    uint32_t bit;
    for (uint32_t i = 0; (name = tool_claim_name(i, &bit)); i++)
        if (claims & bit)
            json_object_array_add(array, json_object_new_string(name));
    return array;
}

static void print_json(FILE *file, const gcoll_algorithm *a) {
    struct json_object *object = json_object_new_object(), *options = json_object_new_array(),
                       *claims = json_object_new_object();
    json_object_object_add(object, "collective",
                           json_object_new_string(gcoll_collective_name(a->collective)));
    json_object_object_add(object, "algorithm", json_object_new_string(a->name));
    json_object_object_add(object, "summary", json_object_new_string(a->summary));
    json_object_object_add(object, "source", json_object_new_string(a->source));
    for (const gcoll_option *o = a->options; o && o->name; o++)
        json_object_array_add(options, json_of_option(o));
    json_object_object_add(object, "options", options);
    for (size_t s = 0; s < SAMPLE_COUNT; s++) {
        char ranks[16];
        uint32_t found = 0;
        snprintf(ranks, sizeof ranks, "%u", samples[s]);
        bool applies = claims_of(a, samples[s], &found);
        json_object_object_add(claims, ranks, applies ? json_of_claims(found) : NULL);
    }
    json_object_object_add(object, "claims", claims);
    json_object_object_add(object, "takes_codec", json_object_new_boolean(takes_codec(a)));
    fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

int tool_list(const tool_options *options) {
    FILE *file = tool_open_output(options);
    bool first = true;
    if (!file)
        return TOOL_FAILED;
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        const char *name = gcoll_collective_name((gcoll_collective)c);
        const gcoll_algorithm *a;
        if (strcmp(options->collective, "all") != 0 && strcmp(options->collective, name) != 0)
            continue;
        if (options->format == TOOL_TABLE)
            fprintf(file, "%s%s\n", first ? "" : "\n", name);
        first = false;
        for (uint32_t i = 0; (a = gcoll_registry_at(&options->registry, (gcoll_collective)c, i)); i++)
            if (options->format == TOOL_TABLE)
                print_row(file, a);
            else
                print_json(file, a);
    }
    return tool_close_output(options, file) ? TOOL_OK : TOOL_FAILED;
}
