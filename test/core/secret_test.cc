// test/core/secret_test.cc - the job's secret: where it comes from, who is kept out by it, and what is said
// then.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"
#include "test/kit/users.h"
#include "test/kit/variable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <mutex>
#include <set>

#include "gcoll/recovery.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;

const std::string kSecret = "a secret of 30 bytes, of no use", kOther = "another secret that is as good";

class Secrets : public testing::Test {
    Variable text_{"GCOLL_SECRET", nullptr}, file_{"GCOLL_SECRET_FILE", nullptr};
};

// Keeps a copy, as the options only point to it.
void give(gcoll_context_options *options, const std::string &secret) {
    static std::mutex lock;
    static std::set<std::string> all;
    std::lock_guard<std::mutex> guard(lock);
    options->secret = secret.empty() ? nullptr : all.insert(secret).first->data();
    options->secret_bytes = secret.size();
}

struct Ending {
    gcoll_status status = GCOLL_OK;
    std::string text;
    bool has_secret(const std::string &secret) const { return text.find(secret) != std::string::npos; }
};

// Creates a context with these options alone, in which nothing but the secret is looked at.
Ending alone(const std::function<void(gcoll_context_options *)> &change) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.tuning = "default";
    change(&options);
    gcoll_context *context = nullptr;
    Ending ending = {gcoll_context_create(&options, &context), ""};
    if (ending.status != GCOLL_OK)
        ending.text = gcoll_last_error();
    gcoll_context_destroy(context);
    return ending;
}

void expect_refused(const Ending &ending, const std::string &text) {
    EXPECT_EQ(ending.status, GCOLL_ERR_INVALID) << ending.text;
    EXPECT_NE(ending.text.find(text), std::string::npos) << ending.text << "\nlacks: " << text;
    EXPECT_FALSE(ending.has_secret(kSecret));
}

// Two ranks over tcp. Rank r has the secret of that number ("": none); the store is `store`.
// By one store that any number of threads may use, or by one for each rank.
std::vector<Ending> two(const std::vector<gcoll_store *> &stores, const std::vector<std::string> &secrets,
                        const Body &body, int64_t timeout_ms = 1000) {
    Watchdog watchdog(60);
    std::vector<Ending> endings(secrets.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < secrets.size(); rank++)
        threads.emplace_back([&, rank] {
            Job job = job_on("tcp", static_cast<uint32_t>(secrets.size()), timeout_ms);
            gcoll_context_options options = options_of(job, rank, stores[rank % stores.size()], nullptr);
            give(&options, secrets[rank]);
            gcoll_context *context = nullptr;
            endings[rank].status = gcoll_context_create(&options, &context);
            if (endings[rank].status != GCOLL_OK)
                endings[rank].text = gcoll_last_error();
            else
                body(rank, context);
            gcoll_context_destroy(context);
        });
    for (std::thread &thread : threads)
        thread.join();
    return endings;
}

void expect_sum(gcoll_context *context) {
    std::vector<float> data(1000, 1);
    ASSERT_EQ(sum_floats(context, data, "auto"), GCOLL_OK) << gcoll_last_error();
    for (const float value : data)
        ASSERT_EQ(value, static_cast<float>(gcoll_context_size(context)));
}

// ---- Where it comes from --------------------------------------------------------------------------------

TEST_F(Secrets, OptionsThatMakeNoSenseAreRefused) {
    expect_refused(alone([](auto o) { give(o, "fifteen bytes.."); }),
                   "options.secret: has 15 bytes; allowed are 16 to 4096");
    expect_refused(alone([](auto o) {
                       o->secret = kSecret.data();
                       o->secret_bytes = 4097;
                   }),
                   "options.secret: has 4097 bytes");
    expect_refused(alone([](auto o) { o->secret_bytes = 16; }),
                   "options.secret_bytes: is 16, and options.secret NULL");
    expect_refused(alone([](auto o) {
                       give(o, kSecret);
                       o->secret_file = "/nowhere";
                   }),
                   "options.secret_file: is set beside options.secret");
    EXPECT_EQ(alone([](auto o) { give(o, "sixteen bytes .."); }).status, GCOLL_OK);
    EXPECT_EQ(alone([](auto o) { give(o, std::string(16, 'x')); }).status, GCOLL_OK);
}

TEST_F(Secrets, AFileMustBeOneThatKeepsThem) {
    Folder folder;
    const std::string name = folder.path() + "/secret";
    auto by_file = [&] { return alone([&](auto o) { o->secret_file = name.c_str(); }); };
    EXPECT_EQ(by_file().status, GCOLL_ERR_IO);
    EXPECT_NE(by_file().text.find("options.secret_file: cannot open '" + name + "': No such file"),
              std::string::npos)
        << by_file().text;
    std::ofstream(name) << kSecret << "\n";
    for (const mode_t mode : {0604, 0644, 0602, 0620, 0660, 0777}) {
        ASSERT_EQ(chmod(name.c_str(), mode), 0);
        expect_refused(by_file(), "' has mode 0" + std::string{static_cast<char>('0' + (mode >> 6 & 7)),
                                                               static_cast<char>('0' + (mode >> 3 & 7)),
                                                               static_cast<char>('0' + (mode & 7))});
    }
    for (const mode_t mode : {0400, 0440, 0600, 0640}) {
        ASSERT_EQ(chmod(name.c_str(), mode), 0);
        EXPECT_EQ(by_file().status, GCOLL_OK) << by_file().text;
    }
    if (gcoll_test::may_be(12345)) {
        ASSERT_EQ(chown(name.c_str(), 12345, 0), 0);
        expect_refused(by_file(), "belongs to user 12345");
        ASSERT_EQ(chown(name.c_str(), 0, 0), 0);
    }
    const std::string link = folder.path() + "/link"; // as Kubernetes mounts them
    ASSERT_EQ(symlink(name.c_str(), link.c_str()), 0);
    EXPECT_EQ(alone([&](auto o) { o->secret_file = link.c_str(); }).status, GCOLL_OK);
    expect_refused(alone([&](auto o) { o->secret_file = folder.path().c_str(); }), "is no regular file");
    const std::string pipe = folder.path() + "/pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    expect_refused(alone([&](auto o) { o->secret_file = pipe.c_str(); }), "is no regular file");
    std::ofstream(name, std::ios::trunc) << "short\n";
    expect_refused(by_file(), "options.secret_file: has 5 bytes");
    std::ofstream(name, std::ios::trunc) << std::string(4097, 'x');
    expect_refused(by_file(), "options.secret_file: has 4097 bytes");
    std::ofstream(name, std::ios::trunc) << std::string(100000, 'x');
    expect_refused(by_file(), "options.secret_file: '" + name + "' has more than 4096 bytes");
}

// The same one, by each of the ways: ranks meet only if it is.
TEST_F(Secrets, AllWaysGiveTheSame) {
    Folder folder;
    const std::string unix_file = folder.path() + "/unix", dos_file = folder.path() + "/dos";
    std::ofstream(unix_file) << kSecret << "\n";
    std::ofstream(dos_file) << kSecret << "\r\n";
    ASSERT_EQ(chmod(unix_file.c_str(), 0600), 0);
    ASSERT_EQ(chmod(dos_file.c_str(), 0600), 0);
    const std::vector<std::function<void(gcoll_context_options *)>> ways = {
        [](auto o) { give(o, kSecret); },
        [&](auto o) { o->secret_file = unix_file.c_str(); },
        [&](auto o) { o->secret_file = dos_file.c_str(); },
    };
    Job job = job_on("tcp", 4, 20000);
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        if (rank < ways.size())
            ways[rank](options); // rank 3: by the variable
    };
    {
        Variable text("GCOLL_SECRET", kSecret.c_str());
        run_threads(job, [](uint32_t, gcoll_context *context) { expect_sum(context); });
    }
    Variable file("GCOLL_SECRET_FILE", unix_file.c_str());
    run_threads(job, [](uint32_t, gcoll_context *context) { expect_sum(context); });
    Variable text("GCOLL_SECRET", kSecret.c_str());
    expect_refused(alone([](auto) {}), "GCOLL_SECRET_FILE: is set beside GCOLL_SECRET");
    EXPECT_EQ(alone([](auto o) { give(o, kOther); }).status, GCOLL_OK) << "options come first";
}

TEST_F(Secrets, VariablesAreNamedInErrors) {
    Variable text("GCOLL_SECRET", "short");
    expect_refused(alone([](auto) {}), "GCOLL_SECRET: has 5 bytes; allowed are 16 to 4096");
}

// ---- Who is kept out ------------------------------------------------------------------------------------

TEST_F(Secrets, ContextsOfAllKindsWorkWithOne) {
    for (const char *transport : {"tcp", "shm", "shm,tcp", "tcp:connections=3", "inproc"}) {
        SCOPED_TRACE(transport);
        Job job = job_on(transport, 3, 20000);
        job.adjust = [](uint32_t, gcoll_context_options *options) { give(options, kSecret); };
        run_threads(job, [](uint32_t rank, gcoll_context *context) {
            expect_sum(context);
            gcoll_context *copy = nullptr, *half = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
            EXPECT_GCOLL_OK(gcoll_context_split(context, static_cast<int>(rank % 2), 0, &half));
            expect_sum(copy);
            expect_sum(half);
            gcoll_context_destroy(half);
            gcoll_context_destroy(copy);
        });
    }
}

// Both sides hear of it, whichever of them is rank 0, and neither text has the secret.
TEST_F(Secrets, AnotherOneOrNoneIsToldOnBothSides) {
    const struct {
        std::vector<std::string> secrets;
        std::string said;
    } rows[] = {{{kSecret, kOther}, "is signed with another secret than this rank has (options.secret)"},
                {{kSecret, ""}, "is signed with a job's secret; this rank has none (options.secret)"},
                {{"", kSecret}, "is not signed with the job's secret (options.secret)"}};
    for (const auto &row : rows) {
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        const std::vector<Ending> endings =
            two({store}, row.secrets, [](uint32_t, gcoll_context *) { FAIL() << "they must not meet"; });
        EXPECT_EQ(endings[1].status, GCOLL_ERR_PROTOCOL);
        EXPECT_NE(endings[1].text.find(row.said), std::string::npos) << endings[1].text;
        EXPECT_EQ(endings[0].status, GCOLL_ERR_TIMEOUT);
        EXPECT_NE(endings[0].text.find("did not join within 1000 ms: 1"), std::string::npos)
            << endings[0].text;
        EXPECT_NE(endings[0].text.find("(options.secret), was here and left"), std::string::npos)
            << endings[0].text;
        for (const Ending &ending : endings)
            EXPECT_FALSE(ending.has_secret(kSecret) || ending.has_secret(kOther)) << ending.text;
        gcoll_store_destroy(store);
    }
}

// A store of somebody who wants to be believed: changes what the `which`-th get of a value brings, of keys
// with `part` in their names.
struct Liar {
    gcoll_store *base = nullptr;
    int which = 0;
    const char *part = "";
    std::atomic<int> gets{0};
};

gcoll_status lie_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    auto *liar = static_cast<Liar *>(self);
    const gcoll_status status = gcoll_store_get(liar->base, key, value, capacity, bytes);
    if (status == GCOLL_OK && *bytes > 0 && strstr(key, liar->part) && liar->gets++ == liar->which)
        static_cast<char *>(value)[*bytes - 1] ^= 1;
    return status;
}

const gcoll_store_ops kLiarOps = {
    sizeof(gcoll_store_ops),
    "liar",
    [](void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set(static_cast<Liar *>(self)->base, key, value, bytes);
    },
    lie_get,
    [](void *self, const char *key, int64_t ms) {
        return gcoll_store_wait(static_cast<Liar *>(self)->base, key, ms);
    },
    [](void *self, const char *key, int64_t delta, int64_t *value) {
        return gcoll_store_add(static_cast<Liar *>(self)->base, key, delta, value);
    },
    [](void *self, const char *key) { return gcoll_store_remove(static_cast<Liar *>(self)->base, key); },
    nullptr,
    [](void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set_new(static_cast<Liar *>(self)->base, key, value, bytes);
    },
    nullptr,
    nullptr,
    nullptr};

// Whatever value is changed, no rank joins by it: that of the launch, claims, addresses, costs.
TEST_F(Secrets, NoChangedValueOfTheStoreIsUsed) {
    int changed = 0, told_of = 0;
    for (int which = 0; which < 12; which++) {
        SCOPED_TRACE(which);
        Liar liar;
        liar.which = which;
        ASSERT_EQ(gcoll_store_memory_create(&liar.base), GCOLL_OK);
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_create(&kLiarOps, &liar, &store), GCOLL_OK);
        const std::vector<Ending> endings = two(
            {store}, {kSecret, kSecret},
            [](uint32_t, gcoll_context *context) {
                std::vector<float> data(10, 1);
                if (sum_floats(context, data, "auto") == GCOLL_OK)
                    EXPECT_EQ(data[0], 2);
            },
            1000);
        if (liar.gets > which) {
            changed++;
            bool is_told = false;
            for (const Ending &ending : endings)
                is_told =
                    is_told || ending.text.find("is signed with another secret than this rank has "
                                                "(options.secret), or was changed") != std::string::npos;
            told_of += is_told;
            EXPECT_TRUE(is_told || (endings[0].status == GCOLL_OK && endings[1].status == GCOLL_OK))
                << endings[0].text << "\n"
                << endings[1].text;
        }
        gcoll_store_destroy(store);
        gcoll_store_destroy(liar.base);
    }
    EXPECT_GE(changed, 4) << "a launch gets that many values at least";
    EXPECT_GE(told_of, 4) << "of " << changed << " that were changed";
}

// Whoever reads a launch of another secret just before rank 0 takes it over reads again: that the first value
// could not be believed is no reason to leave.
TEST_F(Secrets, ALaunchThatIsReplacedWhileItIsReadIsJoined) {
    Liar liar;
    liar.part = "/launch";
    ASSERT_EQ(gcoll_store_memory_create(&liar.base), GCOLL_OK);
    gcoll_store *store = nullptr;
    ASSERT_EQ(gcoll_store_create(&kLiarOps, &liar, &store), GCOLL_OK);
    for (const Ending &ending : two(
             {store}, {kSecret, kSecret}, [](uint32_t, gcoll_context *context) { expect_sum(context); },
             20000))
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
    EXPECT_GE(liar.gets, 2) << "the changed value is read again";
    gcoll_store_destroy(store);
    gcoll_store_destroy(liar.base);
}

// A launch that has died does not keep one with another secret from starting.
TEST_F(Secrets, ADeadLaunchWithAnotherOneIsTakenOver) {
    const NoLaunch unnamed; // with an identity of its own nothing is in the way
    for (const std::string &dead : {kOther, std::string()}) {
        Folder folder;
        const std::string url = "file:" + folder.path();
        gcoll_store *stores[2] = {};
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            gcoll_store *own = nullptr;
            gcoll_context_options options;
            gcoll_context *context = nullptr;
            if (gcoll_store_open(url.c_str(), 5000, &own) == GCOLL_OK) {
                options = options_of(job_on("tcp", 2, 60000), 0, own, nullptr);
                give(&options, dead);
                gcoll_context_create(&options, &context); // waits until it is killed
            }
            _exit(1);
        }
        for (gcoll_store *&store : stores)
            ASSERT_GCOLL_OK(gcoll_store_open(url.c_str(), 5000, &store));
        EXPECT_GCOLL_OK(gcoll_store_wait(stores[0], "gcoll/default/launch", 20000));
        kill(child, SIGKILL);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        for (const Ending &ending : two(
                 {stores[0], stores[1]}, {kSecret, kSecret},
                 [](uint32_t, gcoll_context *context) { expect_sum(context); }, 20000))
            EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
        for (gcoll_store *store : stores)
            gcoll_store_destroy(store);
    }
}

// The same in a store that can do little: what is left of the first round is passed over.
TEST_F(Secrets, RestsOfAnotherOneInALimitedStoreDoNoHarm) {
    gcoll_store *base = nullptr, *store = nullptr;
    gcoll_store_ops ops = {};
    ops.struct_size = sizeof ops;
    ops.name = "limited";
    ops.set = [](void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set(static_cast<gcoll_store *>(self), key, value, bytes);
    };
    ops.get_wait = [](void *self, const char *key, void *value, size_t capacity, size_t *bytes, int64_t ms) {
        return gcoll_store_get_wait(static_cast<gcoll_store *>(self), key, value, capacity, bytes, ms);
    };
    ASSERT_EQ(gcoll_store_memory_create(&base), GCOLL_OK);
    ASSERT_GCOLL_OK(gcoll_store_create(&ops, base, &store));
    const auto none = [](uint32_t, gcoll_context *context) { expect_sum(context); };
    EXPECT_EQ(two({store}, {kOther, kOther}, none, 20000)[0].status, GCOLL_OK);
    for (const Ending &ending : two({store}, {kSecret, kSecret}, none, 20000))
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
    const std::vector<Ending> endings = two({store}, {kSecret, kOther}, none, 1000);
    EXPECT_NE(endings[0].text.find("is signed with another secret than this rank has (options.secret)"),
              std::string::npos)
        << endings[0].text;
    EXPECT_NE(endings[1].status, GCOLL_OK);
    gcoll_store_destroy(store);
    gcoll_store_destroy(base);
}

// Newcomers need the secret, too.
TEST_F(Secrets, OnlyWhoHasItIsAdmitted) {
    Folder folder;
    const std::string url = "file:" + folder.path();
    for (const bool is_right : {true, false}) {
        SCOPED_TRACE(is_right);
        std::thread newcomer([&] {
            gcoll_store *store = nullptr;
            ASSERT_EQ(gcoll_store_open(url.c_str(), 5000, &store), GCOLL_OK);
            gcoll_context_options options;
            gcoll_context_options_init(&options);
            options.store = store;
            options.transport = "tcp";
            options.job = "growing";
            options.tuning = "default";
            options.same = GCOLL_SAME_NOWHERE;
            options.timeout_ms = is_right ? 20000 : 3000;
            give(&options, is_right ? kSecret : kOther);
            gcoll_context *joined = nullptr;
            const gcoll_status status = gcoll_context_join(&options, &joined);
            EXPECT_EQ(status == GCOLL_OK, is_right) << told(status);
            if (status == GCOLL_OK)
                expect_sum(joined);
            gcoll_context_destroy(joined);
            gcoll_store_destroy(store);
        });
        Job job = job_on("tcp", 2, 20000);
        job.adjust = [](uint32_t, gcoll_context_options *options) {
            give(options, kSecret);
            options->recovery = 1;
        };
        run_threads(job, [&](uint32_t, gcoll_context *context) {
            gcoll_store *store = nullptr;
            ASSERT_EQ(gcoll_store_open(url.c_str(), 5000, &store), GCOLL_OK);
            gcoll_grow_options options;
            gcoll_grow_options_init(&options);
            options.store = store;
            options.job = "growing";
            options.timeout_ms = 5000;
            gcoll_context *grown = nullptr;
            gcoll_status status = GCOLL_OK;
            for (int i = 0; i < (is_right ? 200 : 5) && !grown && status == GCOLL_OK; i++) {
                status = gcoll_context_grow(context, &options, &grown);
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            }
            EXPECT_EQ(grown != nullptr, is_right) << told(status);
            if (grown)
                expect_sum(grown);
            gcoll_context_destroy(grown);
            gcoll_store_destroy(store);
        });
        newcomer.join();
    }
}

// ---- The log --------------------------------------------------------------------------------------------

TEST_F(Secrets, ListeningToOthersWithoutOneIsSaidOnce) {
    for (const char *interface : {"127.0.0.1", static_cast<const char *>(nullptr)})
        for (const bool has : {false, true}) {
            static std::atomic<int> warnings;
            warnings = 0;
            Job job = job_on("tcp", 3, 20000);
            job.adjust = [&](uint32_t, gcoll_context_options *options) {
                options->interface = interface;
                if (has)
                    give(options, kSecret);
                options->log = [](void *, gcoll_log_level level, const char *text) {
                    if (level == GCOLL_LOG_WARNING && strstr(text, "options.secret_file"))
                        warnings++;
                };
            };
            run_threads(job, [](uint32_t, gcoll_context *context) { expect_sum(context); });
            uint32_t count = 0; // addresses of this host that are not loopback
            EXPECT_GCOLL_OK(gcoll_devices(
                [](void *arg, const gcoll_device *device) {
                    if (strcmp(device->transport, "tcp") == 0 && strcmp(device->kind, "loopback") != 0)
                        ++*static_cast<uint32_t *>(arg);
                },
                &count));
            EXPECT_EQ(warnings, !interface && count > 0 && !has ? 1 : 0);
        }
}

} // namespace
