// bindings/torch/store.h - the store that torch hands over, as a store of gcoll's.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <gcoll/gcoll.h>

namespace gcoll_torch {

// Makes a store that sets keys in, and waits for keys of, `store`, which must outlive it. It lacks the
// other operations, because the stores of torch differ in them.
gcoll_status create_store(c10d::Store *store, gcoll_store **result);

// The first line of an exception's text; torch's own go on with a backtrace.
std::string first_line(const std::exception &error);

} // namespace gcoll_torch
