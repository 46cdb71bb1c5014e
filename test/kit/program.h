// test/kit/program.h - runs programs as child processes, as users run them.
#ifndef GCOLL_TEST_PROGRAM_H
#define GCOLL_TEST_PROGRAM_H

#include <gtest/gtest.h>

#include <json-c/json.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// What tests start, by path. A test has those that gcoll_test_programs gives it (test/CMakeLists.txt).
extern const char GCOLL_BENCH[], GCOLL_BENCH_FAULTY[], GCOLL_PLAN[], GCOLL_TOP[], GCOLL_TRACE[], TRAIN[],
    TROUBLE[], NETLAB_RANK[];
// Libraries for the option --load.
extern const char EXAMPLE_PLUGIN[], PLUGIN_DROP[], PLUGIN_CLAIM[], PLUGIN_MODEST[], PLUGIN_CRASH[],
    PLUGIN_VERSION[], PLUGIN_SAME[], PLUGIN_RELUCT[], PLUGIN_REFUSE[];

namespace program_test {

using strings = std::vector<std::string>;

constexpr unsigned limit_s = 100; // seconds; the kernel ends a run that takes longer

struct outcome {
    int status; // exit status, or minus the signal that killed the program
    std::string out, err;
};

inline std::string read_all(std::FILE *file) {
    std::string text;
    std::rewind(file);
    for (int c; (c = std::fgetc(file)) != EOF;)
        text += static_cast<char>(c);
    std::fclose(file);
    return text;
}

// Starts a program with these descriptors as its output. By vfork: copying the pages' table of a process
// under a sanitizer takes about as long as the program that it starts.
inline pid_t start(const char *program, char *const *argv, char *const *environment, int out, int err) {
    const pid_t pid = vfork();
    if (pid == 0) {
        dup2(out, 1);
        dup2(err, 2);
        alarm(limit_s);
        execve(program, argv, environment);
        _exit(127);
    }
    return pid;
}

inline outcome run(const char *program, strings arguments, strings environment = {}) {
    std::FILE *out = std::tmpfile(), *err = std::tmpfile();
    std::vector<char *> argv = {const_cast<char *>(program)};
    for (std::string &argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char *> all;
    for (std::string &setting : environment)
        all.push_back(setting.data());
    for (char **own = environ; *own; own++) {
        const std::string name(*own, 0, strcspn(*own, "=") + 1);
        if (std::none_of(environment.begin(), environment.end(), [&](const std::string &setting) {
                return setting.compare(0, name.size(), name) == 0;
            }))
            all.push_back(*own);
    }
    all.push_back(nullptr);
    const pid_t pid = start(program, argv.data(), all.data(), fileno(out), fileno(err));
    int how = 0;
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    return {WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how), read_all(out), read_all(err)};
}

inline strings lines(const std::string &text) {
    std::istringstream stream(text);
    strings result;
    for (std::string line; std::getline(stream, line);)
        result.push_back(line);
    return result;
}

inline bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

inline std::string file_text(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A temporary folder that ends with the test.
struct folder {
    std::string path;
    folder() {
        std::string name = testing::TempDir() + "/gcoll-test-XXXXXX";
        path = mkdtemp(name.data()) != nullptr ? name : "";
        EXPECT_NE(path, "");
    }
    ~folder() { std::filesystem::remove_all(path); }
};

using json = std::shared_ptr<json_object>;

inline json parse(const std::string &text) {
    json made(json_tokener_parse(text.c_str()), json_object_put);
    EXPECT_NE(made, nullptr) << text;
    return made;
}

inline std::vector<json> records(const outcome &o) {
    std::vector<json> result;
    for (const std::string &line : lines(o.out))
        result.push_back(parse(line));
    return result;
}

inline json_object *field(const json &object, const char *key) {
    json_object *value = nullptr;
    EXPECT_TRUE(json_object_object_get_ex(object.get(), key, &value)) << key;
    return value;
}
inline double number(const json &object, const char *key) {
    return json_object_get_double(field(object, key));
}
inline std::string text(const json &object, const char *key) {
    json_object *value = field(object, key);
    return value != nullptr ? json_object_get_string(value) : "";
}
inline bool truth(const json &object, const char *key) {
    return json_object_get_boolean(field(object, key));
}

} // namespace program_test

#endif
