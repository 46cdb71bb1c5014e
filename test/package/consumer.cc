// Uses an installed gcoll from C++: every public header, and a job of one rank.
#include <gcoll/collectives.h>
#include <gcoll/context.h>
#include <gcoll/export.h>
#include <gcoll/gcoll.h>
#include <gcoll/operations.h>
#include <gcoll/plan.h>
#include <gcoll/simulate.h>
#include <gcoll/status.h>
#include <gcoll/store.h>
#include <gcoll/types.h>
#include <gcoll/version.h>

#include <iostream>
#include <string>
#include <vector>

int main() {
    gcoll_store *store = nullptr;
    gcoll_context *context = nullptr;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.size = 1;
    std::vector<double> data(5, 2.5);
    if (gcoll_store_memory_create(&store) != GCOLL_OK) {
        std::cerr << gcoll_last_error() << '\n';
        return 1;
    }
    options.store = store;
    if (gcoll_context_create(&options, &context) != GCOLL_OK ||
        gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT64, GCOLL_MAX, nullptr) !=
            GCOLL_OK ||
        data[4] != 2.5) {
        std::cerr << gcoll_last_error() << '\n';
        return 1;
    }
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    std::cout << "gcoll " << gcoll_version() << '\n';
    return 0;
}
