// test/core/environment_test.cc - tests of rank, size, job and store from launchers' variables: tables of
// environments, lists of nodes against a naive expansion, and processes that meet by their environment alone.
#include "test/kit/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using Variables = std::vector<std::pair<const char *, std::string>>;

// Removes the variables that a launcher of the tests may have set, and afterwards those that the test has
// set.
class Environment : public testing::Test {
  public:
    Environment() { clear(); }
    ~Environment() override { clear(); }
    static void clear() {
        for (const char *name : {"GCOLL_RANK",
                                 "GCOLL_SIZE",
                                 "GCOLL_LOCAL_RANK",
                                 "GCOLL_LOCAL_SIZE",
                                 "GCOLL_JOB",
                                 "GCOLL_STORE",
                                 "GCOLL_SOURCE",
                                 "RANK",
                                 "WORLD_SIZE",
                                 "LOCAL_RANK",
                                 "LOCAL_WORLD_SIZE",
                                 "MASTER_ADDR",
                                 "MASTER_PORT",
                                 "TORCHELASTIC_RUN_ID",
                                 "SLURM_PROCID",
                                 "SLURM_NTASKS",
                                 "SLURM_LOCALID",
                                 "SLURM_JOB_ID",
                                 "SLURM_STEP_ID",
                                 "SLURM_STEP_NODELIST",
                                 "SLURM_JOB_NODELIST",
                                 "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE",
                                 "PMIX_NAMESPACE",
                                 "PMIX_RANK",
                                 "PMI_RANK",
                                 "PMI_SIZE",
                                 "PMI_FD",
                                 "MPI_LOCALRANKID",
                                 "MPI_LOCALNRANKS",
                                 "JOB_COMPLETION_INDEX"})
            unsetenv(name);
    }
    static void set(const Variables &variables) {
        for (const auto &[name, value] : variables)
            setenv(name, value.c_str(), 1);
    }
};

gcoll_environment read_all() {
    gcoll_environment environment;
    gcoll_environment_init(&environment);
    EXPECT_GCOLL_OK(gcoll_environment_read(&environment));
    return environment;
}

const Variables kSlurm = {
    {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "2"}};
const Variables kTorch = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "a"}, {"MASTER_PORT", "29500"}};

Variables operator+(Variables left, const Variables &right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

TEST_F(Environment, IsWhatTheLauncherSays) {
    constexpr uint32_t kNone = UINT32_MAX;
    const struct {
        Variables variables;
        const char *source;
        uint32_t rank, size, local_rank, local_size;
        const char *job, *store; // up to a derived port
    } table[] = {
        {{{"GCOLL_RANK", "1"}, {"GCOLL_SIZE", "4"}, {"GCOLL_STORE", "file:/x"}},
         "gcoll",
         1,
         4,
         kNone,
         0,
         "default",
         "file:/x"},
        {{{"GCOLL_RANK", "1"},
          {"GCOLL_SIZE", "2"},
          {"GCOLL_LOCAL_RANK", "1"},
          {"GCOLL_LOCAL_SIZE", "2"},
          {"GCOLL_JOB", "j"}},
         "gcoll",
         1,
         2,
         1,
         2,
         "j",
         "tcp://127.0.0.1:"},
        {{{"GCOLL_RANK", "0"}, {"GCOLL_SIZE", "1"}}, "gcoll", 0, 1, kNone, 0, "default", ""},
        {kTorch + Variables{{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}},
         "torchrun", 3, 8, 1, 2, "torchrun-a.29500", "tcp://node7:"},
        {kTorch + Variables{{"MASTER_ADDR", "fd00::7"}}, "torchrun", 3, 8, kNone, 0, "torchrun-a.29500",
         "tcp://[fd00::7]:"},
        {kTorch + Variables{{"MASTER_ADDR", "n"}, {"GCOLL_STORE", "redis://r"}, {"GCOLL_JOB", "mine"}},
         "torchrun", 3, 8, kNone, 0, "mine", "redis://r"},
        {kSlurm + Variables{{"SLURM_LOCALID", "1"},
                            {"SLURM_STEP_NODELIST", "n[003-005,7],m"},
                            {"SLURM_JOB_NODELIST", "z"}},
         "slurm", 3, 8, 1, 0, "slurm-17.2", "tcp://n003:"},
        {kSlurm + Variables{{"SLURM_JOB_NODELIST", "z"}}, "slurm", 3, 8, kNone, 0, "slurm-17.2", "tcp://z:"},
        {kSlurm + Variables{{"SLURM_JOB_NODELIST", "z"}, {"MASTER_ADDR", "n"}}, "slurm", 3, 8, kNone, 0,
         "slurm-17.2", "tcp://n:"},
        {{{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "1510342657"},
          {"PMIX_RANK", "1"}},
         "openmpi",
         1,
         2,
         1,
         2,
         "openmpi-1510342657",
         "tcp://127.0.0.1:"},
        {{{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "5"}},
         "openmpi",
         1,
         4,
         kNone,
         2,
         "openmpi-5",
         ""},
        {{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}, {"MPI_LOCALNRANKS", "2"}},
         "pmi",
         1,
         4,
         kNone,
         2,
         "default",
         "pmi:"},
        {{{"PMI_RANK", "1"},
          {"PMI_SIZE", "4"},
          {"PMI_FD", "7"},
          {"MPI_LOCALNRANKS", "2"},
          {"GCOLL_JOB", "j"}},
         "pmi",
         1,
         4,
         kNone,
         2,
         "j",
         "pmi:"},
        {{{"PMI_RANK", "1"},
          {"PMI_SIZE", "2"},
          {"PMI_FD", "7"},
          {"MPI_LOCALNRANKS", "2"},
          {"GCOLL_JOB", "j"}},
         "pmi",
         1,
         2,
         kNone,
         2,
         "j",
         "tcp://127.0.0.1:"},
        {kSlurm +
             Variables{{"SLURM_JOB_NODELIST", "z"}, {"PMI_FD", "7"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "8"}},
         "slurm", 3, 8, kNone, 0, "slurm-17.2", "tcp://z:"},
        {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
         "pmi",
         1,
         2,
         1,
         2,
         "default",
         ""},
        {{{"PMI_RANK", "1"},
          {"PMI_SIZE", "2"},
          {"MPI_LOCALRANKID", "1"},
          {"MPI_LOCALNRANKS", "2"},
          {"GCOLL_JOB", "j"}},
         "pmi",
         1,
         2,
         1,
         2,
         "j",
         "tcp://127.0.0.1:"},
        {{{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "s"}, {"GCOLL_SIZE", "3"}},
         "pmix",
         2,
         3,
         kNone,
         0,
         "pmix-s",
         ""},
        {{{"JOB_COMPLETION_INDEX", "2"}, {"GCOLL_SIZE", "3"}, {"GCOLL_STORE", "tcp://job-0.job:4000"}},
         "kubernetes",
         2,
         3,
         kNone,
         0,
         "default",
         "tcp://job-0.job:4000"},
        // Sources that agree are no error. GCOLL_* always wins, and GCOLL_SOURCE says which source counts.
        {kTorch + kSlurm, "torchrun", 3, 8, kNone, 0, "torchrun-a.29500", ""},
        {kTorch + kSlurm +
             Variables{{"GCOLL_RANK", "0"}, {"GCOLL_SIZE", "2"}, {"PMI_RANK", "x"}, {"PMI_SIZE", "1"}},
         "gcoll", 0, 2, kNone, 0, "default", ""},
        {kTorch + kSlurm + Variables{{"SLURM_PROCID", "1"}, {"GCOLL_SOURCE", "slurm"}}, "slurm", 1, 8, kNone,
         0, "slurm-17.2", ""},
        // A batch script has no rank, though it has the variables of one.
        {kTorch + kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}}, "torchrun", 3,
         8, kNone, 0, "torchrun-a.29500", ""},
        {kTorch + Variables{{"GCOLL_RANK", ""}, {"GCOLL_SIZE", ""}}, "torchrun", 3, 8, kNone, 0,
         "torchrun-a.29500", ""},
    };
    for (const auto &row : table) {
        clear();
        set(row.variables);
        const gcoll_environment found = read_all();
        SCOPED_TRACE(&row - table);
        EXPECT_STREQ(found.source, row.source);
        EXPECT_EQ(found.rank, row.rank);
        EXPECT_EQ(found.size, row.size);
        EXPECT_EQ(found.local_rank, row.local_rank);
        EXPECT_EQ(found.local_size, row.local_size);
        EXPECT_STREQ(found.job, row.job);
        const std::string store = found.store, wanted = row.store;
        if (wanted.empty() || wanted == "pmi:" || wanted.back() != ':') {
            EXPECT_EQ(store, wanted);
            continue;
        }
        EXPECT_EQ(store.substr(0, wanted.size()), wanted);
        const int port = atoi(store.c_str() + wanted.size());
        EXPECT_TRUE(port >= 20000 && port < 32768) << store;
    }
}

TEST_F(Environment, WithoutALauncherThereIsNone) {
    gcoll_environment environment;
    gcoll_environment_init(&environment);
    EXPECT_EQ(gcoll_environment_read(&environment), GCOLL_ERR_NOT_FOUND);
    EXPECT_STREQ(gcoll_last_error(),
                 "no launcher's variables are set: set GCOLL_RANK, GCOLL_SIZE and GCOLL_STORE, or start by "
                 "torchrun, srun, mpirun or mpiexec");
    EXPECT_EQ(environment.size, 0u) << "written on success only";
}

TEST_F(Environment, ErrorsNameVariableValueAndWhatIsAllowed) {
    const struct {
        Variables variables;
        const char *text;
    } table[] = {
        {{{"GCOLL_RANK", "2"}, {"GCOLL_SIZE", "2"}}, "GCOLL_RANK: is '2'; allowed is a number of 0 to 1"},
        {{{"GCOLL_RANK", "-1"}, {"GCOLL_SIZE", "2"}}, "GCOLL_RANK: is '-1'; allowed is a number of 0 to 1"},
        {{{"GCOLL_RANK", "1 "}, {"GCOLL_SIZE", "2"}}, "GCOLL_RANK: is '1 '; allowed is a number of 0 to 1"},
        {{{"GCOLL_RANK", "0"}, {"GCOLL_SIZE", "0"}},
         "GCOLL_SIZE: is '0'; allowed is a number of 1 to 1048576"},
        {{{"GCOLL_RANK", "0"}, {"GCOLL_SIZE", "99999999999999999999999"}},
         "GCOLL_SIZE: is '99999999999999999999999'; allowed is a number of 1 to 1048576"},
        {{{"RANK", "0"}, {"WORLD_SIZE", "\x1b[2J\xff"}},
         "WORLD_SIZE: is '?[2J?'; allowed is a number of 1 to 1048576"},
        {{{"RANK", "0"}}, "WORLD_SIZE: is not set, but RANK is '0' (torchrun); allowed are 1 to 1048576"},
        {{{"PMI_SIZE", "4"}},
         "PMI_RANK: is not set, but PMI_SIZE is '4' (pmi); allowed are 0 to the number of ranks less 1"},
        {{{"GCOLL_RANK", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}},
         "GCOLL_SIZE: is not set, but GCOLL_RANK is '0' (gcoll); allowed are 1 to 1048576"},
        {{{"GCOLL_SIZE", "4"}},
         "GCOLL_RANK: is not set, but GCOLL_SIZE is '4' (gcoll); allowed are 0 to the number of ranks less "
         "1"},
        {kTorch + Variables{{"GCOLL_SIZE", "4"}},
         "GCOLL_RANK: is not set, but GCOLL_SIZE is '4' (gcoll); allowed are 0 to the number of ranks less "
         "1"},
        {{{"JOB_COMPLETION_INDEX", "1"}},
         "GCOLL_SIZE: is not set, but JOB_COMPLETION_INDEX is '1' (kubernetes); allowed are 1 to 1048576"},
        {kTorch + kSlurm + Variables{{"SLURM_PROCID", "1"}},
         "torchrun and slurm disagree: RANK is 3 and WORLD_SIZE is 8, but SLURM_PROCID is 1 and SLURM_NTASKS "
         "is 8; allowed is one "
         "rank and size, or GCOLL_SOURCE=torchrun or slurm to say which counts"},
        {kTorch + Variables{{"PMI_RANK", "3"}, {"PMI_SIZE", "9"}},
         "torchrun and pmi disagree: RANK is 3 and WORLD_SIZE is 8, but PMI_RANK is 3 and PMI_SIZE is 9; "
         "allowed is one rank and "
         "size, or GCOLL_SOURCE=torchrun or pmi to say which counts"},
        {{{"GCOLL_SOURCE", "mpi"}},
         "GCOLL_SOURCE: is 'mpi'; allowed are gcoll, torchrun, slurm, openmpi, pmi, pmix, kubernetes"},
        {kTorch + Variables{{"GCOLL_SOURCE", "pmi"}}, "PMI_RANK: is not set, but GCOLL_SOURCE is 'pmi'"},
        {kTorch + Variables{{"LOCAL_RANK", "8"}}, "LOCAL_RANK: is '8'; allowed is a number of 0 to 7"},
        {kTorch + Variables{{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
         "LOCAL_RANK: is '2'; allowed is a number of 0 to 1"},
        {kTorch + Variables{{"LOCAL_WORLD_SIZE", "9"}},
         "LOCAL_WORLD_SIZE: is '9'; allowed is a number of 1 to 8"},
        {kTorch + Variables{{"GCOLL_JOB", "a/b"}},
         "GCOLL_JOB: is 'a/b'; allowed are 1 to 64 of A-Z a-z 0-9 . _ -"},
        {kTorch + Variables{{"MASTER_ADDR", "a b"}},
         "MASTER_ADDR: is 'a b'; allowed is a host's name or address"},
        {kSlurm + Variables{{"SLURM_STEP_NODELIST", "n[3"}},
         "SLURM_STEP_NODELIST: is 'n[3'; allowed is a list such as node[003-005,7],other"},
        {kTorch + Variables{{"GCOLL_STORE", std::string(1024, 'x')}},
         "GCOLL_STORE: has 1024 bytes; allowed are up to 1023"},
    };
    for (const auto &row : table) {
        clear();
        set(row.variables);
        gcoll_environment environment;
        gcoll_environment_init(&environment);
        EXPECT_EQ(gcoll_environment_read(&environment), GCOLL_ERR_INVALID) << row.text;
        EXPECT_STREQ(gcoll_last_error(), row.text);
        EXPECT_EQ(environment.size, 0u) << "written on success only";
    }
}

TEST_F(Environment, ArgumentsAreChecked) {
    gcoll_environment environment = {};
    gcoll_context *context = nullptr;
    EXPECT_EQ(gcoll_environment_read(nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_environment_read(&environment), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("environment.struct_size: is 0"), std::string::npos);
    EXPECT_EQ(gcoll_context_create_from_env(nullptr, nullptr), GCOLL_ERR_INVALID);
    set({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    EXPECT_EQ(gcoll_context_create_from_env(nullptr, &context), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(),
                 "GCOLL_STORE: is not set, and cannot be derived from the variables of pmi; allowed is the "
                 "URL of a store, the same on all ranks");
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&options.store));
    EXPECT_EQ(gcoll_context_create_from_env(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.store: is set"), std::string::npos);
    gcoll_store_destroy(options.store);
    EXPECT_EQ(context, nullptr);
}

// If an identity is not allowed as the name of a job, the job's name is derived from all of it.
TEST_F(Environment, JobsOfOddIdentitiesHaveNamesOfTheirOwn) {
    std::set<std::string> names;
    for (const std::string &id : {std::string("a b"), std::string("a/b"), std::string("prterun-host-1@2"),
                                  std::string(70, 'a'), std::string(71, 'a')}) {
        set(kTorch + Variables{{"TORCHELASTIC_RUN_ID", id}});
        const std::string job = read_all().job;
        EXPECT_LE(job.size(), 64u);
        EXPECT_EQ(job.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << job;
        names.insert(job);
    }
    EXPECT_EQ(names.size(), 5u);
}

// Jobs on one host mostly have different ports, and never that of torchrun's store.
TEST_F(Environment, PortsDependOnTheJobAndAreNotTaken) {
    set(kTorch + Variables{{"MASTER_ADDR", "n"}});
    std::set<std::string> stores;
    for (int i = 0; i < 1000; i++) {
        setenv("GCOLL_JOB", ("job" + std::to_string(i)).c_str(), 1);
        const std::string store = read_all().store;
        stores.insert(store);
        setenv("MASTER_PORT", store.substr(strlen("tcp://n:")).c_str(), 1);
        const int moved = atoi(read_all().store + strlen("tcp://n:"));
        EXPECT_NE("tcp://n:" + std::to_string(moved), store);
        EXPECT_TRUE(moved >= 20000 && moved < 32768) << moved;
        setenv("MASTER_PORT", "29500", 1);
    }
    EXPECT_GT(stores.size(), 900u); // of 1000 drawn from 12768, some 962 differ
}

// A list of nodes as Slurm writes it, and its first node by a plain expansion.
struct NodeList {
    std::string text, first;
};

NodeList random_list(std::mt19937 &random) {
    auto below = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
    auto word = [&] {
        std::string text;
        for (unsigned i = 1 + below(5); i > 0; i--)
            text += "abcXYZ059.-_"[below(12)];
        return text;
    };
    auto number = [&](unsigned value, unsigned width) {
        std::string text = std::to_string(value);
        return text.size() < width ? std::string(width - text.size(), '0') + text : text;
    };
    NodeList list;
    for (unsigned items = 1 + below(3), item = 0; item < items; item++) {
        std::string text;
        std::vector<std::string> hosts = {""};
        for (unsigned parts = 1 + below(4), part = 0; part < parts; part++) {
            std::vector<std::string> values;
            if (part % 2 == 0 && below(4) > 0) {
                values.push_back(word());
                text += values[0];
            } else {
                text += "[";
                for (unsigned ranges = 1 + below(3), range = 0; range < ranges; range++) {
                    const unsigned low = below(200), high = low + below(4), width = below(5);
                    text += (range > 0 ? "," : "") + number(low, width);
                    if (high > low)
                        text += "-" + number(high, width);
                    for (unsigned value = low; value <= high; value++)
                        values.push_back(number(value, width));
                }
                text += "]";
            }
            std::vector<std::string> longer;
            for (const std::string &host : hosts)
                for (const std::string &value : values)
                    longer.push_back(host + value);
            hosts = longer;
        }
        list.text += (item > 0 ? "," : "") + text;
        if (item == 0)
            list.first = hosts[0];
    }
    return list;
}

TEST_F(Environment, TheFirstNodeIsThatOfAPlainExpansion) {
    std::mt19937 random(20261122);
    set(kSlurm);
    for (int i = 0; i < 3000; i++) {
        const NodeList list = random_list(random);
        setenv("SLURM_STEP_NODELIST", list.text.c_str(), 1);
        const std::string store = read_all().store, wanted = "tcp://" + list.first + ":";
        ASSERT_EQ(store.substr(0, wanted.size()), wanted) << list.text;
    }
}

// Lists of random bytes give an error or a host, and no read beyond the limits.
TEST_F(Environment, NodeListsOfAnyBytesAreRefusedOrRead) {
    std::mt19937 random(7);
    set(kSlurm);
    for (const std::string &bad :
         std::vector<std::string>{"", ",n", "[", "[]", "n[", "n[]", "n[1", "n[1-", "n[1-]", "n[-1]", "n[1,]",
                                  "n[,1]", "n[a]", "n[1]]", "n]", "n[[1]]", "n m", "n/"}) {
        setenv("SLURM_STEP_NODELIST", bad.c_str(), 1);
        gcoll_environment environment;
        gcoll_environment_init(&environment);
        if (!bad.empty())
            EXPECT_EQ(gcoll_environment_read(&environment), GCOLL_ERR_INVALID) << bad;
    }
    for (int i = 0; i < 20000; i++) {
        std::string text;
        for (unsigned n = 1 + static_cast<unsigned>(random() % (i % 100 == 0 ? 600 : 12)); n > 0; n--)
            text += "n0[]-,,1."[random() % 9];
        setenv("SLURM_STEP_NODELIST", text.c_str(), 1);
        gcoll_environment environment;
        gcoll_environment_init(&environment);
        const gcoll_status status = gcoll_environment_read(&environment);
        EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_INVALID) << text;
        EXPECT_LT(strlen(environment.store), 300u);
    }
    for (size_t bytes : {253, 254}) {
        setenv("SLURM_STEP_NODELIST", std::string(bytes, 'n').c_str(), 1);
        gcoll_environment environment;
        gcoll_environment_init(&environment);
        EXPECT_EQ(gcoll_environment_read(&environment), bytes == 253 ? GCOLL_OK : GCOLL_ERR_INVALID);
    }
}

// ---- Processes ------------------------------------------------------------------------------------------

bool is_free(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const bool free = bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    close(fd);
    return free;
}

// Three ranks of one launcher meet. `common` is the same for all. Its job's name has `id`, which varies until
// the derived port is free.
void meet(const char *source, const char *rank, const char *id, const Variables &common) {
    std::mt19937 random(static_cast<unsigned>(getpid()));
    Environment::set(common);
    setenv(rank, "0", 1);
    for (int i = 0; i < 100; i++) {
        setenv(id, std::to_string(random()).c_str(), 1);
        const std::string store = read_all().store;
        if (is_free(static_cast<uint16_t>(atoi(store.substr(store.rfind(':') + 1).c_str()))))
            break;
    }
    EXPECT_STREQ(read_all().source, source);
    gcoll_test::Processes processes(3, [rank](uint32_t r) {
        setenv(rank, std::to_string(r).c_str(), 1);
        gcoll_context *context = nullptr;
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.timeout_ms = 60000;
        EXPECT_GCOLL_OK(gcoll_context_create_from_env(&options, &context));
        if (!context)
            return gcoll_test::kFailed;
        EXPECT_EQ(gcoll_context_rank(context), r);
        EXPECT_EQ(gcoll_context_size(context), 3u);
        int32_t sum = 1 << r;
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &sum, 1, GCOLL_INT32, GCOLL_SUM, nullptr));
        EXPECT_EQ(sum, 7);
        gcoll_context_destroy(context);
        return 0;
    });
    processes.expect_success(90000);
}

TEST_F(Environment, ProcessesMeetByVariablesOfTheirOwn) {
    meet("gcoll", "GCOLL_RANK", "GCOLL_JOB", {{"GCOLL_SIZE", "3"}, {"GCOLL_LOCAL_SIZE", "3"}});
}

TEST_F(Environment, ProcessesMeetByAStoreThatIsNamed) {
    gcoll_test::Folder folder;
    meet("gcoll", "GCOLL_RANK", "GCOLL_JOB", {{"GCOLL_SIZE", "3"}, {"GCOLL_STORE", folder.url()}});
    EXPECT_EQ(folder.files(), std::vector<std::string>());
}

TEST_F(Environment, ProcessesMeetAsThoseOfTorchrun) {
    meet("torchrun", "RANK", "TORCHELASTIC_RUN_ID",
         {{"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
}

TEST_F(Environment, ProcessesMeetAsThoseOfSrun) {
    meet("slurm", "SLURM_PROCID", "SLURM_JOB_ID",
         {{"SLURM_NTASKS", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "localhost,other[1-2]"}});
}

TEST_F(Environment, ProcessesMeetAsThoseOfOpenMpi) {
    meet("openmpi", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE",
         {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}});
}

TEST_F(Environment, OneRankNeedsNoStore) {
    set({{"GCOLL_RANK", "0"}, {"GCOLL_SIZE", "1"}});
    gcoll_context *context = nullptr;
    ASSERT_GCOLL_OK(gcoll_context_create_from_env(nullptr, &context));
    EXPECT_EQ(gcoll_context_size(context), 1u);
    gcoll_context_destroy(context);
}

} // namespace
