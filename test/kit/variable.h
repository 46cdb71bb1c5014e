// test/kit/variable.h - a variable of the environment, for as long as a test needs it.
#ifndef GCOLL_TEST_VARIABLE_H
#define GCOLL_TEST_VARIABLE_H

#include <cstdlib>
#include <string>

namespace gcoll_test {

// A variable of the environment, until the end of the scope. NULL: it is not set.
class Variable {
  public:
    Variable(const char *name, const char *value) : name_(name) {
        const char *before = getenv(name);
        was_set_ = before;
        before_ = before ? before : "";
        value ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Variable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    const char *name_;
    bool was_set_ = false;
    std::string before_;
};

} // namespace gcoll_test

#endif
