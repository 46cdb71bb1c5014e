// test/core/network_test.cc - options.transport and options.interface of contexts: which of option,
// environment and default counts, and what errors say.
#include "test/kit/harness.h"

#include <stdlib.h>

#include <string>
#include <vector>

extern "C" {
#include "test/core/network_peek.h"
}

namespace {

using gcoll_test::Group;
using gcoll_test::Job;

class Network : public testing::Test {
  public:
    Network() { clear(); }
    ~Network() override { clear(); }
    static void clear() {
        for (const char *name : {"GCOLL_TRANSPORT", "GCOLL_INTERFACE", "GCOLL_IB_PORT", "GCOLL_IB_SL"})
            unsetenv(name);
    }
};

// A context of one rank, which opens no endpoint.
struct Alone {
    explicit Alone(const char *transport,
                   const std::function<void(gcoll_context_options &)> &change = nullptr) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.transport = transport;
        if (change)
            change(options);
        status = gcoll_context_create(&options, &context);
        error = status == GCOLL_OK ? "" : gcoll_last_error();
        if (context)
            network_look(context, &seen);
    }
    ~Alone() { gcoll_context_destroy(context); }
    Alone(const Alone &) = delete;
    Alone &operator=(const Alone &) = delete;

    gcoll_status status;
    std::string error;
    gcoll_context *context = nullptr;
    network_seen seen = {};
};

const char *const kAllowed = "; allowed are auto, tcp, inproc, shm, ibverbs";

TEST_F(Network, TheVariableFillsInATransportThatTheProgramLeavesOpen) {
    const struct {
        const char *option, *variable, *transport, *lanes;
    } rows[] = {
        {nullptr, nullptr, "shm", "shm,tcp"},
        {"auto", nullptr, "shm", "shm,tcp"},
        {nullptr, "", "shm", "shm,tcp"},
        {nullptr, "auto", "shm", "shm,tcp"},
        {"shm,tcp", nullptr, "shm", "shm,tcp"},
        {"tcp,shm", nullptr, "shm", "tcp,shm"},
        {nullptr, "inproc", "inproc", "inproc"},
        {"auto", "inproc", "inproc", "inproc"},
        {"tcp", "inproc", "tcp", "tcp"},
        {"ibverbs:port=1", "inproc", "ibverbs", "ibverbs:port=1"},
        {"tcp", "pigeon", "tcp", "tcp"},
        {"tcp:pool_bytes=1Mi", nullptr, "tcp", "tcp:pool_bytes=1048576"},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(std::string(row.option ? row.option : "NULL") + " " +
                     (row.variable ? row.variable : "NULL"));
        clear();
        if (row.variable)
            setenv("GCOLL_TRANSPORT", row.variable, 1);
        Alone alone(row.option);
        ASSERT_EQ(alone.status, GCOLL_OK) << alone.error;
        EXPECT_STREQ(alone.seen.transport, row.transport);
        EXPECT_STREQ(alone.seen.lanes, row.lanes);
        const char *name = nullptr;
        EXPECT_EQ(gcoll_transport_parse(row.option, &name), GCOLL_OK);
        EXPECT_STREQ(name, row.transport);
    }
}

TEST_F(Network, AnErrorNamesTheOptionOrTheVariable) {
    EXPECT_EQ(Alone("pigeon").error, std::string("options.transport: names 'pigeon'") + kAllowed);
    EXPECT_EQ(Alone("").error, std::string("options.transport: is ''") + kAllowed);
    EXPECT_EQ(Alone("inproc:x=1").error, "options.transport: inproc has no option 'x'; it takes none");
    EXPECT_EQ(Alone("ibverbs:gid=900").error,
              "options.transport: option gid of ibverbs is '900'; allowed are 0 to "
              "255, and -1 for the default");
    EXPECT_EQ(Alone("tcp:eager_bytes=2G").error,
              "options.transport: option eager_bytes of tcp is '2G'; allowed are 1 "
              "to 1Gi bytes, and 0 for the default");
    setenv("GCOLL_TRANSPORT", "pigeon", 1);
    for (const char *open : {static_cast<const char *>(nullptr), "auto"}) {
        Alone alone(open);
        EXPECT_EQ(alone.status, GCOLL_ERR_INVALID);
        EXPECT_EQ(alone.error, std::string("GCOLL_TRANSPORT: names 'pigeon'") + kAllowed);
    }
}

TEST_F(Network, AListNamesLanesAndInprocGoesAlone) {
    EXPECT_EQ(Alone("ibverbs,pigeon").status, GCOLL_ERR_INVALID);
    setenv("GCOLL_TRANSPORT", "tcp,inproc", 1);
    Alone mixed(nullptr);
    EXPECT_EQ(mixed.status, GCOLL_ERR_INVALID);
    EXPECT_EQ(mixed.error, "GCOLL_TRANSPORT: names inproc among others; allowed is inproc alone");
}

TEST_F(Network, OptionsInTheTextCountBeforeOtherFields) {
    auto sizes = [](gcoll_context_options &o) {
        o.eager_bytes = 5000;
        o.eager_pool_bytes = 2000000;
    };
    Alone both("tcp:eager_bytes=64k:pool_bytes=1Mi", sizes), one("tcp:eager_bytes=1Ki", sizes),
        none("tcp", sizes);
    EXPECT_EQ(both.seen.eager_bytes, 65536u);
    EXPECT_EQ(both.seen.pool_bytes, 1048576u);
    EXPECT_EQ(one.seen.eager_bytes, 1024u);
    EXPECT_EQ(one.seen.pool_bytes, 2000000u);
    EXPECT_EQ(none.seen.eager_bytes, 5000u);
    EXPECT_EQ(none.seen.pool_bytes, 2000000u);
}

TEST_F(Network, OptionsOfIbverbsComeFromTextStructEnvironmentAndDefaultInThisOrder) {
    gcoll_ibverbs_options ibverbs;
    gcoll_ibverbs_options_init(&ibverbs);
    ibverbs.port = 2;
    ibverbs.device = "mlx5_1";
    auto with_struct = [&](gcoll_context_options &o) { o.ibverbs = &ibverbs; };
    setenv("GCOLL_IB_PORT", "3", 1);
    setenv("GCOLL_IB_SL", "4", 1);
    Alone text("ibverbs:device=mlx5_0:port=1:sl=0", with_struct), fields("ibverbs", with_struct),
        neither("ibverbs");
    ASSERT_NE(text.seen.ibverbs, nullptr) << text.error;
    EXPECT_STREQ(text.seen.ibverbs->device, "mlx5_0");
    EXPECT_EQ(text.seen.ibverbs->port, 1u);
    EXPECT_EQ(text.seen.ibverbs->service_level, 0u) << "0 in the text is no gap for the environment";
    ASSERT_NE(fields.seen.ibverbs, nullptr);
    EXPECT_STREQ(fields.seen.ibverbs->device, "mlx5_1");
    EXPECT_EQ(fields.seen.ibverbs->port, 2u);
    EXPECT_EQ(fields.seen.ibverbs->service_level, 4u);
    ASSERT_NE(neither.seen.ibverbs, nullptr);
    EXPECT_EQ(neither.seen.ibverbs->device, nullptr);
    EXPECT_EQ(neither.seen.ibverbs->port, 3u);
    EXPECT_EQ(neither.seen.ibverbs->timeout, 14u);
}

TEST_F(Network, AWrongOptionOfIbverbsIsRefusedAtCreation) {
    gcoll_ibverbs_options ibverbs;
    gcoll_ibverbs_options_init(&ibverbs);
    ibverbs.mtu = 1500;
    auto with_struct = [&](gcoll_context_options &o) { o.ibverbs = &ibverbs; };
    EXPECT_EQ(Alone("ibverbs", with_struct).error,
              "options.ibverbs->mtu: is 1500; allowed are 256, 512, 1024, 2048, 4096");
    EXPECT_EQ(Alone("ibverbs:mtu=1024", with_struct).status, GCOLL_OK) << "the text counts";
    setenv("GCOLL_IB_PORT", "some", 1);
    EXPECT_EQ(Alone("ibverbs").error,
              "GCOLL_IB_PORT: is 'some'; allowed are 1 to 255, and 0 for the default");
    EXPECT_EQ(Alone("tcp").status, GCOLL_OK) << "which does not read it";
    ibverbs.mtu = 0;
    ibverbs.struct_size = 0;
    EXPECT_NE(Alone("ibverbs:port=1", with_struct).error.find("options.ibverbs->struct_size"),
              std::string::npos);
}

TEST_F(Network, TheVariableFillsInAnInterfaceThatTheProgramLeavesOpen) {
    auto interface = [](const char *text) {
        return [text](gcoll_context_options &o) { o.interface = text; };
    };
    EXPECT_EQ(Alone("tcp").seen.interface, nullptr);
    setenv("GCOLL_INTERFACE", "lo", 1);
    EXPECT_STREQ(Alone("tcp").seen.interface, "lo");
    EXPECT_STREQ(Alone("tcp", interface("eth0,lo")).seen.interface, "eth0,lo");
    EXPECT_EQ(Alone("inproc").seen.interface, nullptr);
    setenv("GCOLL_INTERFACE", "", 1);
    EXPECT_EQ(Alone("tcp").seen.interface, nullptr);
    setenv("GCOLL_INTERFACE", "eth0,", 1);
    EXPECT_EQ(Alone("tcp").error,
              "GCOLL_INTERFACE: is 'eth0,', in which an item is missing; allowed are names, "
              "addresses and subnets, joined by commas");
    EXPECT_EQ(Alone("inproc").status, GCOLL_OK) << "which does not read it";
    EXPECT_EQ(Alone("tcp", interface("10.0.0.0/33"))
                  .error.find("options.interface: is '10.0.0.0/33', in which '10.0.0.0/33' is no name"),
              0u);
}

TEST_F(Network, AnInterfaceThatIsNotThereIsCalledByItsVariable) {
    gcoll_test::Watchdog watchdog(60);
    const std::string rest = ": is 'eth987', which fits nothing; this host has ";
    for (const char *from : {"GCOLL_INTERFACE", "options.interface"}) {
        const bool by_variable = from[0] == 'G';
        if (by_variable)
            setenv("GCOLL_INTERFACE", "eth987", 1);
        else
            clear();
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        Job job;
        job.size = 2;
        job.transport = "tcp";
        job.timeout_ms = 2000;
        gcoll_context_options options = gcoll_test::options_of(job, 0, store, nullptr);
        options.interface = by_variable ? nullptr : "eth987";
        gcoll_context *context = nullptr;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
        EXPECT_EQ(std::string(gcoll_last_error()).find(from + rest), 0u) << gcoll_last_error();
        gcoll_store_destroy(store);
    }
}

// What the environment said when the parent was created holds for its children.
TEST_F(Network, ChildrenHaveThatOfTheirParent) {
    gcoll_test::Watchdog watchdog(60);
    setenv("GCOLL_TRANSPORT", "tcp:eager_bytes=3Ki:pool_bytes=1Mi", 1);
    setenv("GCOLL_INTERFACE", "127.0.0.1,::1", 1);
    Job job;
    job.size = 3;
    job.transport = nullptr;
    gcoll_test::run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *split = nullptr, *copy = nullptr;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 0) { // nobody else reads it meanwhile
            setenv("GCOLL_TRANSPORT", "inproc", 1);
            setenv("GCOLL_INTERFACE", "eth987", 1);
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_GCOLL_OK(gcoll_context_split(context, 0, -static_cast<int32_t>(rank), &split));
        EXPECT_GCOLL_OK(gcoll_context_duplicate(split, &copy));
        for (gcoll_context *each : {context, split, copy}) {
            network_seen seen = {};
            network_look(each, &seen);
            EXPECT_STREQ(seen.transport, "tcp");
            EXPECT_STREQ(seen.lanes, "tcp:eager_bytes=3072:pool_bytes=1048576");
            EXPECT_STREQ(seen.interface, "127.0.0.1,::1");
            EXPECT_EQ(seen.eager_bytes, 3072u);
            EXPECT_GCOLL_OK(gcoll_barrier(each, nullptr));
        }
        gcoll_context_destroy(copy);
        gcoll_context_destroy(split);
    });
}

TEST_F(Network, OptionsOfTransportsAreListed) {
    std::vector<std::string> names;
    auto note = [](void *arg, const gcoll_transport_option *option) {
        for (const char *text :
             {option->name, option->allowed, option->initial, option->help, option->variable, option->field})
            ASSERT_NE(text, nullptr);
        static_cast<std::vector<std::string> *>(arg)->push_back(std::string(option->name) + " " +
                                                                option->variable + " " + option->field);
    };
    ASSERT_EQ(gcoll_transport_options("ibverbs", note, &names), GCOLL_OK);
    ASSERT_GE(names.size(), 12u);
    EXPECT_EQ(names[2], "gid GCOLL_IB_GID_INDEX gid_index");
    names.clear();
    EXPECT_EQ(gcoll_transport_options("inproc", note, &names), GCOLL_OK);
    EXPECT_TRUE(names.empty());
    EXPECT_EQ(gcoll_transport_options("pigeon", note, &names), GCOLL_ERR_NOT_FOUND);
    EXPECT_EQ(gcoll_transport_options(nullptr, note, &names), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(), "transport: is NULL");
    EXPECT_EQ(gcoll_transport_options("tcp", nullptr, nullptr), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(), "fn: is NULL");
    EXPECT_EQ(gcoll_transport_parse("tcp", nullptr), GCOLL_ERR_INVALID);
    const char *name = "kept";
    EXPECT_EQ(gcoll_transport_parse("pigeon", &name), GCOLL_ERR_INVALID);
    EXPECT_EQ(std::string(gcoll_last_error()), std::string("transport: names 'pigeon'") + kAllowed);
    EXPECT_STREQ(name, "kept");
}

} // namespace
