/* algorithms/select/tuning_file.c - reads tuning files, and looks them up.
 *
 * All numbers are whole, so that the locale of the caller does not change their meaning. */
#include "algorithms/select/tuning_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"

#define VERSION_LINE    "gcoll-tuning 1"
#define MOST_RANKS      GCOLL_MAX_RANKS
#define MOST_NS         UINT64_C(10000000000)   /* 10 s a message */
#define MOST_PS         UINT64_C(1000000000000) /* 1 s a byte */
#define CHOICE_TEXT_MAX 127
#define WORDS_MAX       16
#define SHOWN           40 /* bytes of a word that an error shows */

typedef struct reader {
    const char *name;
    gcoll_tuning *tuning;
    char *word[WORDS_MAX];
    uint32_t words, line;
} reader;

static gcoll_status bad(const reader *r, const char *field, const char *found, const char *allowed) {
    return gcoll_error(GCOLL_ERR_INVALID, "%s: line %u: %s: found '%.*s'; allowed: %s", r->name, r->line,
                       field, SHOWN, found, allowed);
}

/* ---- Words ----------------------------------------------------------------------------------------- */

static bool parse_size(const char *text, uint64_t *bytes) {
    return gcoll_text_parse_size(text, strlen(text), INT64_MAX, bytes);
}

/* The value of "key=value" among the words from `first` on, or NULL. Each key may appear once. */
static const char *value_of(const reader *r, const char *key) {
    size_t length = strlen(key);
    for (uint32_t i = 1; i < r->words; i++)
        if (strncmp(r->word[i], key, length) == 0 && r->word[i][length] == '=')
            return r->word[i] + length + 1;
    return NULL;
}

static gcoll_status check_keys(const reader *r, const char *const *keys, const char *allowed) {
    for (uint32_t i = 1; i < r->words; i++) {
        size_t length = strcspn(r->word[i], "=");
        bool known = false;
        for (const char *const *key = keys; *key; key++)
            known = known || (r->word[i][length] == '=' && strlen(*key) == length &&
                              strncmp(r->word[i], *key, length) == 0);
        if (!known)
            return bad(r, "key", r->word[i], allowed);
        for (uint32_t k = 1; k < i; k++)
            if (strncmp(r->word[k], r->word[i], length + 1) == 0)
                return bad(r, "key", r->word[i], "each once");
    }
    return GCOLL_OK;
}

static gcoll_status take_whole(const reader *r, const char *key, uint64_t least, uint64_t most,
                               const char *allowed, uint64_t *value) {
    const char *text = value_of(r, key);
    if (!text)
        return bad(r, key, "nothing", allowed);
    if (!gcoll_text_parse_whole(text, strlen(text), most, value) || *value < least)
        return bad(r, key, text, allowed);
    return GCOLL_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------------- */

static gcoll_tuning_section *latest(const reader *r) {
    return r->tuning->section_count > 0 ? &r->tuning->sections[r->tuning->section_count - 1] : NULL;
}

static gcoll_status check_new(const reader *r, const gcoll_tuning_section *made) {
    for (uint32_t i = 0; i < r->tuning->section_count; i++) {
        const gcoll_tuning_section *s = &r->tuning->sections[i];
        if (strcmp(s->transport, made->transport) == 0 && s->ranks == made->ranks && s->local == made->local)
            return gcoll_error(
                GCOLL_ERR_INVALID,
                "%s: line %u: for: transport %s with %u ranks, %u on a host, stands in line %u", r->name,
                r->line, made->transport, made->ranks, made->local, s->line);
    }
    return GCOLL_OK;
}

/* "for transport=tcp ranks=8 local=8" */
static gcoll_status read_for(reader *r) {
    static const char *const keys[] = {"transport", "ranks", "local", NULL};
    static const char allowed_ranks[] = "1 to 1048576", allowed_transport[] = "1 to 31 of a-z 0-9 _";
    gcoll_tuning_section made = {.line = r->line, .first = r->tuning->rule_count};
    uint64_t ranks = 0, local = 0;
    gcoll_status status = check_keys(r, keys, "transport=NAME ranks=N [local=N]");
    if (status != GCOLL_OK)
        return status;
    const char *transport = value_of(r, "transport");
    size_t length = transport ? strlen(transport) : 0;
    if (length == 0 || length >= sizeof made.transport ||
        strspn(transport, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return bad(r, "transport", transport ? transport : "nothing", allowed_transport);
    memcpy(made.transport, transport, length + 1);
    status = take_whole(r, "ranks", 1, MOST_RANKS, allowed_ranks, &ranks);
    local = ranks;
    if (status == GCOLL_OK && value_of(r, "local"))
        status = take_whole(r, "local", 1, ranks, "1 to the number of ranks", &local);
    made.ranks = (uint32_t)ranks;
    made.local = (uint32_t)local;
    if (status == GCOLL_OK)
        status = check_new(r, &made);
    if (status != GCOLL_OK)
        return status;
    gcoll_tuning_section *more =
        realloc(r->tuning->sections, (r->tuning->section_count + (size_t)1) * sizeof *more);
    if (!more)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory", r->name);
    r->tuning->sections = more;
    more[r->tuning->section_count++] = made;
    return GCOLL_OK;
}

/* "cost alpha_ns=6000 beta_ps=250 gamma_ps=100 latency_ns=0 message_ns=0 byte_ps=0 host_alpha_ns=500
 * host_beta_ps=100" */
static gcoll_status read_cost(reader *r) {
    static const char *const keys[] = {"alpha_ns",      "beta_ps",      "gamma_ps",
                                       "latency_ns",    "message_ns",   "byte_ps",
                                       "host_alpha_ns", "host_beta_ps", NULL};
    gcoll_tuning_section *s = latest(r);
    if (!s || s->cost_line != 0)
        return bad(r, "line", "cost", !s ? "'for' first" : "one line 'cost' after each 'for'");
    gcoll_status status = check_keys(
        r, keys, "alpha_ns, beta_ps, gamma_ps, latency_ns, message_ns, byte_ps, host_alpha_ns, host_beta_ps");
    double *const to[] = {&s->cost.alpha,      &s->cost.beta,    &s->cost.gamma,   &s->sharing.latency,
                          &s->sharing.message, &s->sharing.byte, &s->levels.alpha, &s->levels.beta};
    for (uint32_t i = 0; keys[i] && status == GCOLL_OK; i++) {
        const bool a_message = strstr(keys[i], "_ns");
        uint64_t value = 0;
        if (i < 3 || value_of(r, keys[i]))
            status = take_whole(r, keys[i], 0, a_message ? MOST_NS : MOST_PS,
                                a_message ? "0 to 10000000000" : "0 to 1000000000000", &value);
        *to[i] = (double)value * (a_message ? 1e-9 : 1e-12);
    }
    s->cost_line = r->line;
    const char *latency = value_of(r, "latency_ns");
    if (status == GCOLL_OK && latency && s->sharing.latency > s->cost.alpha)
        status = bad(r, "latency_ns", latency, "0 to alpha_ns");
    if (status == GCOLL_OK && !value_of(r, "host_alpha_ns") != !value_of(r, "host_beta_ps"))
        status = bad(r, "host_alpha_ns, host_beta_ps", "one of them", "both or none");
    return status;
}

static gcoll_status read_range(const reader *r, gcoll_tuning_rule *rule) {
    static const char allowed[] = "a number of bytes, with Ki, Mi, Gi or nothing behind it";
    if (!parse_size(r->word[2], &rule->from_bytes))
        return bad(r, "from", r->word[2], allowed);
    if (strcmp(r->word[3], "-") == 0)
        rule->to_bytes = UINT64_MAX;
    else if (!parse_size(r->word[3], &rule->to_bytes))
        return bad(r, "to", r->word[3],
                   "a number of bytes, with Ki, Mi, Gi or nothing behind it, or - for no end");
    if (rule->to_bytes <= rule->from_bytes)
        return bad(r, "to", r->word[3], "more than the start of the range");
    const gcoll_tuning_section *s = latest(r);
    for (uint32_t i = 0; i < s->count; i++) {
        const gcoll_tuning_rule *other = &r->tuning->rules[s->first + i];
        if (other->collective == rule->collective && other->from_bytes < rule->to_bytes &&
            rule->from_bytes < other->to_bytes)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: line %u: from, to: meets the sizes of line %u",
                               r->name, r->line, other->line);
    }
    return GCOLL_OK;
}

/* Checks one choice. If the library has the algorithm, it must have the options as well. */
static gcoll_status check_choice(const reader *r, gcoll_collective collective, const char *text) {
    char name[CHOICE_TEXT_MAX + 1];
    gcoll_choice choice;
    size_t length = strcspn(text, ":");
    if (strlen(text) > CHOICE_TEXT_MAX || length == 0 || (length == 4 && memcmp(text, "auto", 4) == 0))
        return bad(r, "algorithm", text, "NAME[:key=value]... of up to 127 bytes, and not auto");
    memcpy(name, text, length);
    name[length] = '\0';
    if (!gcoll_registry_find(NULL, collective, name) ||
        gcoll_choice_parse(NULL, text, collective, &choice) == GCOLL_OK)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "%s: line %u: %s", r->name, r->line, gcoll_last_error());
}

/* "choose allreduce 4Ki 64Ki ring:segment=2Ki linear" */
static gcoll_status read_choose(reader *r) {
    gcoll_tuning_rule rule = {.line = r->line};
    gcoll_tuning_section *s = latest(r);
    if (!s)
        return bad(r, "line", "choose", "'for' first");
    if (r->words < 5 || r->words > 4 + GCOLL_TUNING_CHOICES_MAX)
        return bad(r, "line", "choose", "choose COLLECTIVE FROM TO and 1 to 8 algorithms");
    if (gcoll_collective_parse(r->word[1], &rule.collective) != GCOLL_OK)
        return bad(r, "collective", r->word[1],
                   "allreduce, broadcast, ... as gcoll_collective_name has them");
    gcoll_status status = read_range(r, &rule);
    for (uint32_t i = 4; i < r->words && status == GCOLL_OK; i++) {
        status = check_choice(r, rule.collective, r->word[i]);
        rule.choice[rule.count++] = r->word[i];
    }
    if (status != GCOLL_OK)
        return status;
    gcoll_tuning_rule *more = realloc(r->tuning->rules, (r->tuning->rule_count + (size_t)1) * sizeof *more);
    if (!more)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory", r->name);
    r->tuning->rules = more;
    more[r->tuning->rule_count++] = rule;
    s->count++;
    return GCOLL_OK;
}

static uint32_t count_words(const char *text) {
    uint32_t count = 0;
    for (text += strspn(text, " \t\r"); *text; text += strspn(text, " \t\r"), count++)
        text += strcspn(text, " \t\r");
    return count;
}

/* "tour 0 4 5 1 2 6 3 7": each of the section's ranks once. text: what follows the first word. */
static gcoll_status read_tour(reader *r, char *text) {
    gcoll_tuning_section *s = latest(r);
    char allowed[48], found[32], *rest = NULL;
    uint32_t count = 0;
    if (!s || s->tour)
        return bad(r, "line", "tour", !s ? "'for' first" : "one line 'tour' after each 'for'");
    (void)snprintf(allowed, sizeof allowed, "each of 0 to %u once", s->ranks - 1);
    (void)snprintf(found, sizeof found, "%u ranks", count_words(text));
    if (count_words(text) < s->ranks) /* memory is bounded by the line, not by a number in the file */
        return bad(r, "tour", found, allowed);
    s->tour = calloc(s->ranks, sizeof *s->tour);
    uint8_t *seen = calloc(s->ranks, sizeof *seen);
    gcoll_status status =
        s->tour && seen ? GCOLL_OK : gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory", r->name);
    for (char *word = strtok_r(text, " \t\r", &rest); word && status == GCOLL_OK;
         word = strtok_r(NULL, " \t\r", &rest)) {
        uint64_t rank = 0;
        if (!gcoll_text_parse_whole(word, strlen(word), s->ranks - 1, &rank) || seen[rank]++)
            status = bad(r, "tour", word, allowed);
        else
            s->tour[count++] = (uint32_t)rank;
    }
    free(seen);
    return status;
}

/* Cuts the line into words, in place. */
static gcoll_status cut_words(reader *r, char *line) {
    char *rest = NULL;
    r->words = 0;
    for (char *word = strtok_r(line, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        if (r->words == WORDS_MAX)
            return bad(r, "line", word, "16 words");
        r->word[r->words++] = word;
    }
    return GCOLL_OK;
}

static gcoll_status read_line(reader *r, char *line) {
    if (r->line == 1) {
        line[strcspn(line, "\r")] = '\0';
        return strcmp(line, VERSION_LINE) == 0 ? GCOLL_OK : bad(r, "version", line, VERSION_LINE);
    }
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t");
    if (strcspn(line, " \t\r") == strlen("tour") && strncmp(line, "tour", strlen("tour")) == 0)
        return read_tour(r, line + strlen("tour")); /* more words than other lines have */
    gcoll_status status = cut_words(r, line);
    if (status != GCOLL_OK || r->words == 0)
        return status;
    if (strcmp(r->word[0], "for") == 0)
        return read_for(r);
    if (strcmp(r->word[0], "cost") == 0)
        return read_cost(r);
    if (strcmp(r->word[0], "choose") == 0)
        return read_choose(r);
    return bad(r, "line", r->word[0], "for, cost, choose, tour, or # and a comment");
}

gcoll_status gcoll_tuning_parse(const char *text, size_t bytes, const char *name, gcoll_tuning *tuning) {
    gcoll_tuning made = {.text = malloc(bytes + 1)};
    reader r = {.name = name, .tuning = &made};
    gcoll_status status = GCOLL_OK;
    if (!made.text)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory for %zu bytes", name, bytes);
    if (bytes > 0)
        memcpy(made.text, text, bytes);
    made.text[bytes] = '\0';
    if (bytes > GCOLL_TUNING_BYTES_MAX)
        status = gcoll_error(GCOLL_ERR_INVALID, "%s: has %zu bytes; allowed: up to %d", name, bytes,
                             GCOLL_TUNING_BYTES_MAX);
    for (size_t i = 0; i < bytes && status == GCOLL_OK;
         i++) { /* errors show parts of the text, which must not control terminals */
        r.line += made.text[i] == '\n';
        const char c = made.text[i];
        if ((unsigned char)c < ' ' && c != '\n' && c != '\r' && c != '\t')
            status =
                gcoll_error(GCOLL_ERR_INVALID, "%s: line %u: holds a control character", name, r.line + 1);
    }
    r.line = 0;
    char *line = made.text;
    while (status == GCOLL_OK && line) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        r.line++;
        status = read_line(&r, line);
        line = end ? end + 1 : NULL;
    }
    if (status == GCOLL_OK)
        *tuning = made;
    else
        gcoll_tuning_free(&made);
    return status;
}

void gcoll_tuning_free(gcoll_tuning *tuning) {
    for (uint32_t i = 0; i < tuning->section_count; i++)
        free(tuning->sections[i].tour);
    free(tuning->rules);
    free(tuning->sections);
    free(tuning->text);
    *tuning = (gcoll_tuning){0};
}

/* ---- Looking up ------------------------------------------------------------------------------------ */

/* The larger number divided by the smaller one. */
static double ratio(uint32_t a, uint32_t b) {
    return a > b ? (double)a / b : (double)b / a;
}

const gcoll_tuning_section *gcoll_tuning_section_for(const gcoll_tuning *tuning, const char *transport,
                                                     uint32_t ranks, uint32_t local, bool *exact) {
    const gcoll_tuning_section *best = NULL;
    for (uint32_t i = 0; i < tuning->section_count; i++) {
        const gcoll_tuning_section *s = &tuning->sections[i];
        if (strcmp(s->transport, transport) != 0)
            continue;
        const double far = ratio(s->ranks, ranks), off = ratio(s->local, local);
        if (!best || far < ratio(best->ranks, ranks) ||
            (far <= ratio(best->ranks, ranks) && off < ratio(best->local, local)))
            best = s;
    }
    *exact = best && best->ranks == ranks && best->local == local;
    return best;
}

const gcoll_tuning_rule *gcoll_tuning_rule_for(const gcoll_tuning *tuning,
                                               const gcoll_tuning_section *section,
                                               gcoll_collective collective, uint64_t bytes) {
    for (uint32_t i = 0; i < section->count; i++) {
        const gcoll_tuning_rule *rule = &tuning->rules[section->first + i];
        if (rule->collective == collective && rule->from_bytes <= bytes &&
            (bytes < rule->to_bytes || rule->to_bytes == UINT64_MAX))
            return rule;
    }
    return NULL;
}
