/* tools/cli.c - one table drives reading the flags, the help and the messages. */
#include "tools/cli.h"

#include <errno.h>
#include <string.h>

#include "gcoll/version.h"

#define NAME_MAX_BYTES 64u

/* ---- Readers ------------------------------------------------------------------------------------------ */

bool cli_read_switch(const cli_flag *flag, const char *text, void *to) {
    (void)flag, (void)text;
    return *(bool *)to = true;
}

bool cli_read_text(const cli_flag *flag, const char *text, void *to) {
    (void)flag;
    *(const char **)to = text;
    return true;
}

bool cli_read_name(const cli_flag *flag, const char *text, void *to) {
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (good == 0 || text[good] != '\0' || good > NAME_MAX_BYTES)
        return cli_bad(flag->name, text, "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'");
    return cli_read_text(flag, text, to);
}

bool cli_read_int(const cli_flag *flag, const char *text, void *to) {
    uint32_t value;
    if (!cli_whole32(flag->name, text, (uint32_t)flag->least, (uint32_t)flag->most, &value))
        return false;
    *(int *)to = (int)value;
    return true;
}

bool cli_read_whole32(const cli_flag *flag, const char *text, void *to) {
    return cli_whole32(flag->name, text, (uint32_t)flag->least, (uint32_t)flag->most, to);
}

bool cli_read_whole(const cli_flag *flag, const char *text, void *to) {
    return cli_whole(flag->name, text, (uint64_t)flag->least, (uint64_t)flag->most, to);
}

bool cli_read_size(const cli_flag *flag, const char *text, void *to) {
    return cli_size(flag->name, text, (uint64_t)flag->least, (uint64_t)flag->most, to);
}

bool cli_read_list(const cli_flag *flag, const char *text, void *to) {
    return cli_parse_list(flag->name, text, (uint64_t)flag->least, (uint64_t)flag->most, to);
}

bool cli_read_time(const cli_flag *flag, const char *text, void *to) {
    return cli_time(flag->name, text, flag->unit_ns, flag->least, flag->most, to);
}

bool cli_read_word(const cli_flag *flag, const char *text, void *to) {
    int value;
    if (!cli_word_of(flag->name, text, flag->words, &value))
        return false;
    memcpy(to, &value, sizeof value); /* or an enum of this size */
    return true;
}

/* ---- Tables ------------------------------------------------------------------------------------------- */

static bool takes(const cli_flags *flags, const cli_flag *row) {
    return row->commands == 0 || (row->commands & flags->command) != 0;
}

static const cli_flag *find(const cli_flags *flags, const char *name, size_t length) {
    for (size_t f = 0; f < flags->count; f++) {
        const cli_flag *row = &flags->rows[f];
        if (row->name && takes(flags, row) && strlen(row->name) == length &&
            memcmp(row->name, name, length) == 0)
            return row;
    }
    return NULL;
}

static void complain_unknown(const cli_flags *flags, const char *argument, size_t length) {
    char allowed[1000] = "";
    size_t used = 0;
    for (size_t f = 0; f < flags->count; f++) {
        const char *name = flags->rows[f].name;
        if (name && takes(flags, &flags->rows[f]) && used < sizeof allowed) {
            used +=
                (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", used > 0 ? ", " : "", name);
        }
    }
    cli_complain("unknown argument '%.*s'; allowed are %s", (int)length, argument, allowed);
}

static bool read_row(const cli_flag *row, const char *text, void *options) {
    return row->read(row, text, (char *)options + row->at);
}

/* Reads one flag, and the next argument, too, if it is the flag's value. */
static bool read_argument(const cli_flags *flags, int argc, char **argv, int *at, void *options) {
    const char *argument = argv[(*at)++];
    size_t length = strcspn(argument, "=");
    const cli_flag *row = find(flags, argument, length);
    const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
    if (!row) {
        complain_unknown(flags, argument, length);
        return false;
    }
    if (!row->value && text) {
        cli_complain("%s: is '%s'; the flag takes no value", row->name, text);
        return false;
    }
    if (row->value && !text) {
        if (*at == argc) {
            cli_complain("%s: needs a value: %s %s", row->name, row->name, row->value);
            return false;
        }
        text = argv[(*at)++];
    }
    if (row->given != 0)
        *(bool *)((char *)options + row->given) = true;
    return read_row(row, text, options);
}

bool cli_parse(const cli_flags *flags, int argc, char **argv, void *options) {
    for (size_t f = 0; f < flags->count; f++) {
        const cli_flag *row = &flags->rows[f];
        if (row->initial && !read_row(row, row->initial, options))
            return false;
    }
    for (int at = 1; at < argc;)
        if (!read_argument(flags, argc, argv, &at, options))
            return false;
    return true;
}

void cli_print_flags(FILE *file, const cli_flags *flags) {
    for (size_t f = 0; f < flags->count; f++) {
        const cli_flag *row = &flags->rows[f];
        char left[40];
        if (!takes(flags, row))
            continue;
        if (!row->name) {
            (void)fprintf(file, "\n%s (defaults in parentheses):\n", row->help);
            continue;
        }
        (void)snprintf(left, sizeof left, "%s %s", row->name, row->value ? row->value : "");
        (void)fprintf(file, "  %-20s %s", left, row->help);
        if (row->initial)
            (void)fprintf(file, " (%s)", row->initial);
        (void)fputc('\n', file);
    }
}

void cli_print_version(void) {
    printf("%s %d.%d.%d\n", cli_program, GCOLL_VERSION_MAJOR, GCOLL_VERSION_MINOR, GCOLL_VERSION_PATCH);
}

bool cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    cli_complain("standard output cannot be written: %s", strerror(errno));
    return false;
}
