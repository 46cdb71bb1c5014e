// test/benchmark/bench_support.h - gcoll_bench as a process, and its output.
#ifndef GCOLL_TEST_BENCH_SUPPORT_H
#define GCOLL_TEST_BENCH_SUPPORT_H

#include "test/kit/program.h"

#include <csignal>

namespace bench_test {

using program_test::contains;
using program_test::lines;
using program_test::strings;

// All element types with the operations that they have.
struct type_family {
    strings types, ops;
};

inline const std::vector<type_family> families = {
    {{"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"},
     {"sum", "product", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor"}},
    {{"bool"}, {"land", "lor", "lxor"}},
    {{"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "float64"},
     {"sum", "product", "min", "max", "avg"}},
    {{"complex64", "complex128"}, {"sum", "product", "avg"}},
    {{"float32_int32", "float64_int64", "int32_int32", "int64_int64"}, {"minloc", "maxloc"}},
};

constexpr unsigned limit_s = 60; // of one run; the kernel ends it then

struct folder : program_test::folder {
    bool empty() const { return std::filesystem::is_empty(path); }
};

inline std::string read_all(std::FILE *file) {
    std::string text;
    std::rewind(file);
    for (int c; (c = std::fgetc(file)) != EOF;)
        text += static_cast<char>(c);
    return text;
}

// A program that is running: a group of processes of its own, its output in files.
struct process {
    pid_t pid = -1;
    std::FILE *out = std::tmpfile();
    std::FILE *err = std::tmpfile();

    // ignored: a signal that it is begun with ignored.
    process(const char *program, strings arguments, const strings &environment = {}, int ignored = 0) {
        std::vector<char *> argv = {const_cast<char *>(program)};
        for (std::string &argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        pid = fork();
        if (pid == 0) {
            setpgid(0, 0);
            dup2(fileno(out), 1);
            dup2(fileno(err), 2);
            for (const std::string &setting : environment)
                putenv(strdup(setting.c_str()));
            if (ignored != 0)
                signal(ignored, SIG_IGN);
            alarm(limit_s);
            execv(program, argv.data());
            _exit(127);
        }
    }
    ~process() {
        std::fclose(out);
        std::fclose(err);
    }
    // The exit status, or minus the signal that killed it.
    int wait() {
        int how = 0;
        EXPECT_EQ(waitpid(pid, &how, 0), pid);
        return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
    }
};

struct outcome {
    int status;
    std::string out, err;
};

inline outcome run(const strings &arguments, const strings &environment = {},
                   const char *program = GCOLL_BENCH) {
    process p(program, arguments, environment);
    int status = p.wait();
    return {status, read_all(p.out), read_all(p.err)};
}

using json = std::unique_ptr<json_object, int (*)(json_object *)>;

inline json parse(const std::string &line) {
    return json(json_tokener_parse(line.c_str()), json_object_put);
}

inline double number(const json &object, const char *key) {
    return json_object_get_double(json_object_object_get(object.get(), key));
}

inline std::string text(const json &object, const char *key) {
    const char *value = json_object_get_string(json_object_object_get(object.get(), key));
    return value != nullptr ? value : "null";
}

} // namespace bench_test

#endif
