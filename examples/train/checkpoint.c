/* checkpoint.c - header, weights, velocity. */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "gcoll train 1\n";

checkpoint checkpoint_new(const train_options *options, uint64_t parameters) {
    checkpoint self;
    memset(&self, 0, sizeof self); /* gaps too, as all bytes are hashed */
    memcpy(self.magic, magic, sizeof magic);
    self.seed = options->seed;
    self.images = options->images;
    self.batch = options->batch;
    self.ranks = options->size;
    self.channels = options->channels;
    self.parameters = parameters;
    self.rate = options->rate;
    (void)snprintf(self.algorithm, sizeof self.algorithm, "%s", options->algorithm);
    return self;
}

static bool fail(char *what, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, bytes, format, arguments);
    va_end(arguments);
    return false;
}

bool checkpoint_matches(const checkpoint *self, const checkpoint *other, char *what, size_t bytes) {
    const struct {
        const char *name;
        uint64_t own, others;
    } rows[] = {
        {"ranks", self->ranks, other->ranks},
        {"--seed", self->seed, other->seed},
        {"--images", self->images, other->images},
        {"--batch", self->batch, other->batch},
        {"--channels", self->channels, other->channels},
        {"parameters", self->parameters, other->parameters},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (rows[r].own != rows[r].others) {
            return fail(what, bytes, "%s: %" PRIu64 " here, %" PRIu64 " there", rows[r].name, rows[r].own,
                        rows[r].others);
        }
    }
    return self->rate == other->rate ||
           fail(what, bytes, "--rate: %.15g here, %.15g there", self->rate, other->rate);
}

/* Messages are short: of a long path its end, and what is behind it is still said. */
#define SHOWN_BYTES 100

static const char *shown(const char *path) {
    const size_t length = strlen(path);
    return length > SHOWN_BYTES ? path + length - SHOWN_BYTES : path;
}

static uint64_t hash_of(checkpoint header, const float *weights, const float *velocity) {
    const uint64_t bytes = header.parameters * sizeof(float);
    header.hash = 0;
    return hash_bytes(hash_bytes(hash_bytes(HASH_BEGIN, &header, sizeof header), weights, bytes), velocity,
                      bytes);
}

static bool write_file(const char *path, const checkpoint *header, const float *weights,
                       const float *velocity) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return false;
    }
    bool good = fwrite(header, sizeof *header, 1, file) == 1 &&
                fwrite(weights, sizeof(float), header->parameters, file) == header->parameters &&
                fwrite(velocity, sizeof(float), header->parameters, file) == header->parameters &&
                fflush(file) == 0 && fsync(fileno(file)) == 0;
    return fclose(file) == 0 && good;
}

/* So that the new name of the file outlasts a loss of power. Not every file system can do it. */
static void keep_name(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    const int descriptor = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        (void)fsync(descriptor);
        (void)close(descriptor);
    }
    free(folder);
}

#define NAME_BYTES 4096

/* Of the new file beside the old one. */
static bool name_new(const char *path, char name[NAME_BYTES], char *what, size_t bytes) {
    return snprintf(name, NAME_BYTES, "%s.new", path) < NAME_BYTES ||
           fail(what, bytes, "the name of the checkpoint has %zu bytes; allowed: up to %zu", strlen(path),
                NAME_BYTES - sizeof ".new");
}

bool checkpoint_can_be_written(const char *path, char *what, size_t bytes) {
    char temporary[NAME_BYTES];
    struct stat found;
    if (!name_new(path, temporary, what, bytes)) {
        return false;
    }
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
        return fail(what, bytes, "writing the checkpoint %s: %s", shown(path), strerror(EISDIR));
    }
    const int descriptor = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        return fail(what, bytes, "writing the checkpoint %s: %s", shown(path), strerror(errno));
    }
    (void)close(descriptor);
    (void)unlink(temporary);
    return true;
}

bool checkpoint_write(const char *path, const checkpoint *self, const float *weights, const float *velocity,
                      char *what, size_t bytes) {
    char temporary[NAME_BYTES];
    checkpoint header = *self;
    header.hash = hash_of(header, weights, velocity);
    if (!name_new(path, temporary, what, bytes)) {
        return false;
    }
    if (!write_file(temporary, &header, weights, velocity) || rename(temporary, path) != 0) {
        const int error = errno;
        (void)unlink(temporary);
        return fail(what, bytes, "writing the checkpoint %s: %s", shown(path), strerror(error));
    }
    keep_name(path);
    return true;
}

static bool read_file(FILE *file, const char *path, checkpoint *self, float *weights, float *velocity,
                      char *what, size_t bytes) {
    checkpoint found;
    char difference[100];
    if (fread(&found, sizeof found, 1, file) != 1 || memcmp(found.magic, magic, sizeof magic) != 0) {
        return fail(what, bytes, "%s is not a checkpoint of this program", shown(path));
    }
    if (!checkpoint_matches(self, &found, difference, sizeof difference)) {
        return fail(what, bytes, "%s is of another training: %s", shown(path), difference);
    }
    const size_t count = self->parameters;
    if (fread(weights, sizeof(float), count, file) != count ||
        fread(velocity, sizeof(float), count, file) != count || fgetc(file) != EOF ||
        memchr(found.algorithm, '\0', sizeof found.algorithm) == NULL ||
        found.hash != hash_of(found, weights, velocity)) {
        return fail(what, bytes, "%s is damaged", shown(path));
    }
    *self = found;
    return true;
}

bool checkpoint_read(const char *path, checkpoint *self, float *weights, float *velocity, char *what,
                     size_t bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return fail(what, bytes, "reading the checkpoint %s: %s", shown(path), strerror(errno));
    }
    const bool good = read_file(file, path, self, weights, velocity, what, bytes);
    (void)fclose(file);
    return good;
}
