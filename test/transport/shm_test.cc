// test/transport/shm_test.cc - the lane shm between real endpoints: how they meet, when they do not, what is
// left, and peers that die or lie.
#include "test/transport/raw_peer.h"
#include "test/transport/shm_support.h"

#include "test/kit/descriptors.h"
#include "test/kit/file_size_limit.h"
#include "test/kit/forbidden_call.h"
#include "test/kit/sanitizer.h"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

extern "C" {
#include "transport/session/connect.h"
#include "transport/session/session.h"
#include "transport/shm/shm.h"
}

using namespace harness;
using gcoll_test::can_keep_from_children;
using gcoll_test::forbid;
using gcoll_test::lines_with;
using gcoll_test::open_descriptors;

namespace {

// shm, and tcp to fall back on.
const gcoll_transport *both() {
    static const gcoll_transport transport = [] {
        gcoll_transport made = gcoll_transport_shm;
        made.name = "shm_tcp";
        made.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                       gcoll_endpoint **endpoint) {
            gcoll_lane_choice *lanes = nullptr;
            gcoll_endpoint_options with = *options;
            EXPECT_EQ(gcoll_lanes_parse(gcoll_lane_rows, "a test", "shm,tcp", &lanes, &with.lane_count),
                      GCOLL_OK);
            with.lanes = lanes;
            const gcoll_status status = gcoll_transport_shm.open(&with, events, endpoint);
            free(lanes);
            return status;
        };
        return made;
    }();
    return &transport;
}

std::string lane(Rank &rank, uint32_t peer) {
    char text[1024];
    rank.transport->explain(rank.endpoint, peer, text, sizeof text);
    return text;
}

gcoll_shm *port_of(Rank &rank) {
    return gcoll_shm_of(gcoll_net_port(rank.endpoint, &gcoll_lane_shm));
}

// Whether the peer's hello has come, and the lane has not ended.
bool has_heard(Rank &rank, uint32_t peer) {
    const gcoll_session *session = gcoll_net_session(gcoll_net_of(rank.endpoint), peer);
    const bool is_taken = session && gcoll_session_has_taken(session, &gcoll_lane_shm);
    const gcoll_shm_pair *pair = is_taken ? pair_of(rank, peer) : nullptr;
    return pair && pair->heard_hello;
}

std::string name_of(const uint8_t *bytes) {
    std::string name = "gcoll-shm-";
    char hex[3];
    for (int i = 0; i < GCOLL_SHM_TOKEN; i++) {
        snprintf(hex, sizeof hex, "%02x", bytes[i]);
        name += hex;
    }
    return name;
}
uint32_t mappings() {
    return gcoll_test::mappings("gcoll-shm");
}

TEST(Shm, RanksOfAHostTakeItAndSaySo) {
    Group group(both(), 3);
    meet(group);
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t peer = 0; peer < 3; peer++)
            if (peer != r)
                EXPECT_EQ(lane(group[r], peer), "shm");
}

// With ThreadSanitizer both ends of this process use one mapping.
uint32_t mappings_of(uint32_t pairs) {
    return &__tsan_init ? pairs : 2 * pairs;
}

TEST(Shm, OneDescriptorMoreWhateverTheNumberOfPeersAndNothingIsLeft) {
    take_descriptors_of_process();
    const size_t before = open_descriptors();
    size_t with[2];
    for (const gcoll_transport *transport : {both(), &gcoll_transport_tcp}) {
        Group group(transport, 6);
        meet(group);
        with[transport == both()] = open_descriptors();
        EXPECT_EQ(mappings(), transport == both() ? mappings_of(15) : 0u);
    }
    EXPECT_EQ(with[1], with[0] + 6);
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(mappings(), 0u);
}

TEST(Shm, ARankThatUsesItNotHasNoDescriptorForIt) {
    const size_t before = open_descriptors();
    Group one(&gcoll_transport_tcp, 2);
    const size_t tcp = open_descriptors() - before;
    Group two(both(), 2);
    EXPECT_EQ(open_descriptors() - before, 2 * tcp);
}

// The rings of a rank with many peers are small.
TEST(Shm, MemoryOfManyRanksIsBounded) {
    constexpr uint32_t kRanks = 64;
    Group group(both(), kRanks);
    meet(group);
    for (uint32_t index = 1; index <= 3; index++) { // enough to go round every ring
        for (uint32_t r = 0; r < kRanks; r++)
            for (uint32_t peer = 0; peer < kRanks; peer++)
                if (peer != r) {
                    group[r].send(peer, 1, index, 6000);
                    group[r].receive(peer, 1, index, 6000);
                }
        ASSERT_TRUE(group.turn_until_done());
    }
    size_t mapped = 0, most = 0;
    for (uint32_t r = 0; r < kRanks; r++) {
        size_t own = 0;
        for (uint32_t peer = 0; peer < kRanks; peer++)
            own += peer == r ? 0 : pair_of(group[r], peer)->memory_bytes;
        most = std::max(most, own / 2); // each is the memory of two ranks
        mapped += own;
    }
    EXPECT_LT(most, size_t{1} << 20);
    RecordProperty("bytes_a_rank", static_cast<int>(mapped / 2 / kRanks));
    std::ifstream smaps("/proc/self/smaps");
    bool is_ours = false;
    uint64_t resident_kib = 0;
    for (std::string line; std::getline(smaps, line);) {
        if (line.find("-") != std::string::npos && line.find("r") != std::string::npos &&
            line.find(" kB") == std::string::npos && line.find("VmFlags") == std::string::npos)
            is_ours = line.find("gcoll-shm") != std::string::npos;
        if (is_ours && line.compare(0, 4, "Rss:") == 0)
            resident_kib += std::stoull(line.substr(4));
    }
    EXPECT_GT(resident_kib, 0u);
    EXPECT_LT(resident_kib / 2 / kRanks, 1024u); // mapped twice in this process
    printf("64 ranks: %zu KiB a rank are mapped for, %llu KiB of them used\n", mapped / 2 / kRanks / 1024,
           static_cast<unsigned long long>(resident_kib / 2 / kRanks));
}

// ---- Small messages ---------------------------------------------------------------------------------------

// Both ends of a message that moves within the calls: nothing is posted. A frame that would end behind the
// ring's end is, once a round.
TEST(Shm, SmallMessagesMoveWithinTheCall) {
    Group group(both(), 2);
    meet(group);
    constexpr uint32_t kMessages = 3000;
    uint32_t within = 0;
    group[0].tries_now = group[1].tries_now = true;
    for (uint32_t i = 0; i < kMessages; i++) { // round the ring, and more than a pool
        const uint64_t bytes = i % 10 == 0 ? GCOLL_NOW_BYTES : i % 200;
        const bool sent = group[0].send(1, 5, i, bytes, i % 2 == 0).dones == 1;
        if (!sent)
            group[0].progress(0);
        const bool received = group[1].receive(0, 5, i, bytes, i % 3 == 0).dones == 1;
        within += sent && received;
        if (!sent || !received)
            ASSERT_TRUE(group.turn_until_done());
        if (i % 8 == 0)
            group[0].progress(0); // takes the credit that has come back
    }
    EXPECT_GE(within, kMessages * 98 / 100);
    EXPECT_EQ(group[1].opened.size(), 1u + kMessages / 2);
    group[0].check();
    group[1].check();
}

// What cannot be taken whole, next and unasked is posted: nothing has happened then.
TEST(Shm, WhatCannotMoveWithinTheCallIsLeftAsItWas) {
    Group group(both(), 2);
    meet(group);
    group[0].tries_now = group[1].tries_now = true;
    EXPECT_EQ(group[1].receive(0, 5, 0, 8).dones, 0); // it has not been sent
    EXPECT_EQ(group[0].send(1, 5, 1, 8).dones, 1);    // before the one that is waited for
    EXPECT_EQ(group[0].send(1, 5, 0, 8).dones, 1);
    EXPECT_EQ(group[1].receive(0, 5, 2, 8).dones, 0);                // another is next
    EXPECT_EQ(group[0].send(1, 5, 3, GCOLL_NOW_BYTES + 1).dones, 0); // too long
    EXPECT_EQ(group[0].send(1, 5, 2, 8).dones, 0);                   // behind that
    EXPECT_EQ(group[1].receive(0, 5, 1, 8).dones, 1);
    group[1].receive(0, 5, 3, GCOLL_NOW_BYTES + 1);
    EXPECT_TRUE(group.turn_until_done());
    group[0].check();
    group[1].check();
    group[0].send(1, 5, 4, 8);
    Message &wrong = group[1].receive(0, 5, 4, 12); // of another size: told when it is posted
    EXPECT_EQ(wrong.dones, 0);
    EXPECT_TRUE(group.turn([&] { return !group[1].failed.empty(); }));
    EXPECT_EQ(group[1].failed[0].status, GCOLL_ERR_MISMATCH);
}

// A message of one frame is there as soon as it is posted. One with another before it waits for its turn.
TEST(Shm, SmallMessagesAreWrittenWhenTheyArePosted) {
    Group group(both(), 2);
    meet(group);
    const gcoll_ring_writer &out = pair_of(group[0], 1)->out;
    const gcoll_ring_reader &in = pair_of(group[1], 0)->in;
    for (uint32_t bytes : {0u, 4u, 4096u, 16384u}) {
        const uint64_t before = out.written;
        EXPECT_FALSE(gcoll_ring_has_frame(&in));
        group[0].send(1, 2, bytes, bytes, true);
        EXPECT_EQ(out.written - before, gcoll_ring_frame_bytes(GCOLL_RING_OPEN, bytes)) << bytes;
        EXPECT_TRUE(gcoll_ring_has_frame(&in)) << bytes;
        group[1].receive(0, 2, bytes, bytes);
        ASSERT_TRUE(group.turn_until_done());
    }
    const uint64_t before = out.written;
    group[0].send(1, 3, 0, 30000); // not small
    group[0].send(1, 3, 1, 4);
    EXPECT_EQ(out.written, before);
    for (uint32_t index : {0u, 1u})
        group[1].receive(0, 3, index, index == 0 ? 30000 : 4);
    ASSERT_TRUE(group.turn_until_done());
    for (uint32_t r : {0u, 1u})
        group[r].check();
}

// The reader tells the writer of room once in an eighth of the ring, and no writer waits for more than that
// leaves, whatever the sizes of its messages.
TEST(Shm, RoomIsToldOnceInAnEighthOfTheRing) {
    Group group(both(), 2);
    meet(group);
    const gcoll_ring_reader &in = pair_of(group[1], 0)->in;
    uint32_t news = 0, behind = 0;
    uint64_t told = in.told;
    constexpr uint32_t kMessages = 2000;
    for (uint32_t index = 0; index < kMessages; index++) {
        const uint32_t bytes = index * 37 % 9000;
        group[0].send(1, 2, index, bytes);
        group[1].receive(0, 2, index, bytes);
        ASSERT_TRUE(group.turn_until_done());
        EXPECT_LT(in.read - in.told, in.size / 8);
        behind += in.read != in.told;
        news += in.told != told;
        told = in.told;
    }
    EXPECT_GT(behind, kMessages / 2);
    EXPECT_LT(news, kMessages);
    for (uint32_t r : {0u, 1u})
        group[r].check();
}

// ---- Fallback -------------------------------------------------------------------------------------------

struct Obstacle {
    const char *name;
    uint32_t rank;                       // whose thread it happens to
    std::function<std::string()> happen; // returns what this machine lacks for it, or ""
    std::string why;                     // at that rank, or at the other
    bool is_own;
};

class ShmObstacle : public testing::TestWithParam<Obstacle> {};

// The ranks take tcp, and both say why.
TEST_P(ShmObstacle, BothTakeTcpAndSayWhy) {
    const Obstacle &obstacle = GetParam();
    std::atomic<bool> is_possible{true};
    std::string lacking;
    Group group(both(), 2);
    const uint32_t other = 1 - obstacle.rank;
    group.each([&](Rank &rank) {
        if (rank.rank == obstacle.rank) {
            lacking = obstacle.happen();
            if (!lacking.empty()) {
                is_possible = false;
                return;
            }
        } else {
            group.connect(rank.rank, obstacle.rank);
        }
        rank.send(1 - rank.rank, 1, 0, 100);
        rank.receive(1 - rank.rank, 1, 0, 100);
        EXPECT_TRUE(rank.until([&] { return rank.done == 2 || !is_possible; }));
    });
    if (!is_possible)
        GTEST_SKIP() << "this machine lacks " << lacking;
    const uint32_t teller = obstacle.is_own ? obstacle.rank : other;
    EXPECT_EQ(lane(group[teller], 1 - teller), "tcp (shm: " + obstacle.why + ")");
    EXPECT_EQ(lane(group[1 - teller], teller), "tcp (shm: refused by the other rank: " + obstacle.why + ")");
    EXPECT_EQ(mappings(), 0u);
}

std::string lacking_if(bool failed, const char *what) {
    return failed ? std::string(what) + ": " + strerror(errno) : "";
}
std::string become_nobody() {
    return lacking_if(syscall(SYS_setresuid, 65534, 65534, 65534) != 0, // of this thread alone
                      "the right to become another user");
}
std::string leave_network() {
    return lacking_if(unshare(CLONE_NEWNET) != 0, "network namespaces");
}

const Obstacle kObstacles[] = {
    {"NoMemfd", 0, [] { return forbid(SYS_memfd_create, 9, 0, EPERM); },
     "shm: cannot make memory to share (memfd_create): Operation not permitted", true},
    {"NoSeals", 0, [] { return forbid(SYS_fcntl, 1, F_ADD_SEALS, EPERM); },
     "shm: cannot seal memory to share: Operation not permitted", true},
    {"SealsUnseen", 1, [] { return forbid(SYS_fcntl, 1, F_GET_SEALS, EPERM); },
     "offers memory that could shrink", true},
    {"NoTimeForPages", 0, [] { return forbid(SYS_fallocate, 9, 0, EINTR); },
     "shm: signals leave no time to take pages of memory to share: Interrupted system call", true},
    {"NoMapping", 0, [] { return forbid(SYS_mmap, 3, MAP_SHARED, EACCES); },
     "shm: cannot map memory to share: Permission denied", true},
    {"NoMappingThere", 1, [] { return forbid(SYS_mmap, 3, MAP_SHARED, EACCES); },
     "offers memory that cannot be mapped here: Permission denied", true},
    {"NoSocket", 0, [] { return forbid(SYS_socket, 0, AF_UNIX, EACCES); },
     "cannot make a socket of this host: Permission denied", true},
    {"NoSocketThere", 1, [] { return forbid(SYS_socket, 0, AF_UNIX, EACCES); },
     "cannot make a socket of this host: Permission denied", true},
    {"AnotherNetwork", 0, leave_network,
     "cannot be reached by a socket of this host, as in another network namespace: Connection refused", true},
    {"AnotherNetworkThere", 1, leave_network,
     "cannot be reached by a socket of this host, as in another network namespace: Connection refused",
     false},
    {"AnotherUser", 0, become_nobody,
     "belongs to another user (65534; this rank to " + std::to_string(getuid()) + ")", false},
    {"AnotherUserThere", 1, become_nobody,
     "belongs to another user (" + std::to_string(getuid()) + "; this rank to 65534)", true},
};
INSTANTIATE_TEST_SUITE_P(Each, ShmObstacle, testing::ValuesIn(kObstacles),
                         [](const auto &row) { return std::string(row.param.name); });

TEST(Shm, RanksOfDifferentHostsTakeTcp) {
    Group group(both(), 2);
    gcoll_net_of(group[1].endpoint)->address.host ^= 1;
    meet(group);
    const std::string why = "is on another host, or in another container or network namespace";
    for (uint32_t r = 0; r < 2; r++)
        EXPECT_NE(lane(group[r], 1 - r).find("tcp (shm: "), std::string::npos) << lane(group[r], 1 - r);
    EXPECT_TRUE(lane(group[0], 1) == "tcp (shm: " + why + ")" ||
                lane(group[1], 0) == "tcp (shm: " + why + ")");
}

TEST(Shm, WithoutAnotherLaneTheFailureSaysWhy) {
    Group group(&gcoll_transport_shm, 2);
    gcoll_net_of(group[1].endpoint)->address.host ^= 1;
    group.connect(0, 1);
    for (uint32_t r = 0; r < 2; r++) {
        ASSERT_TRUE(group.turn([&] { return !group[r].failed.empty(); }));
        EXPECT_NE(group[r].failed[0].text.find("is on another host"), std::string::npos)
            << group[r].failed[0].text;
    }
}

TEST(Shm, ChecksumsAreRefused) {
    gcoll_endpoint_options options = options_of(0, 2);
    gcoll_events events = {};
    gcoll_endpoint *endpoint = nullptr;
    options.checksum = true;
    EXPECT_EQ(both()->open(&options, &events, &endpoint), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(std::string(gcoll_last_error()).find("options.checksum: is 1; allowed is 0 over shm"), 0u)
        << gcoll_last_error();
}

TEST(Shm, RingsAreByTheNumberOfRanksOrByTheOption) {
    const struct {
        const char *text;
        uint32_t size, bytes;
    } rows[] = {{"shm", 2, 256 << 10},
                {"shm", 4, 512 << 10},
                {"shm", 8, 512 << 10},
                {"shm", 16, 128 << 10},
                {"shm", 64, 8 << 10},
                {"shm", 65536, 8 << 10},
                {"shm:ring_bytes=4Ki", 2, 4 << 10},
                {"shm:ring_bytes=1Mi", 64, 1 << 20}};
    for (const auto &row : rows) {
        gcoll_lane_choice *lanes = nullptr;
        gcoll_endpoint_options options = options_of(0, row.size);
        ASSERT_EQ(gcoll_lanes_parse(gcoll_lane_rows, "a test", row.text, &lanes, &options.lane_count),
                  GCOLL_OK);
        options.lanes = lanes;
        Rank rank(&gcoll_transport_shm, options);
        EXPECT_EQ(port_of(rank)->ring_bytes, row.bytes) << row.text << " of " << row.size;
        free(lanes);
    }
    gcoll_lane_choice *lanes = nullptr;
    uint32_t count = 0;
    for (uint64_t bytes = 1; bytes <= uint64_t{4} << 20; bytes *= 2)
        for (uint64_t each : {bytes - 1, bytes}) {
            const std::string text = "shm:ring_bytes=" + std::to_string(each);
            const bool is_size = each == 0 || gcoll_ring_is_size(static_cast<uint32_t>(each));
            EXPECT_EQ(gcoll_lanes_parse(gcoll_lane_rows, "here", text.c_str(), &lanes, &count),
                      is_size ? GCOLL_OK : GCOLL_ERR_INVALID)
                << text;
            if (is_size)
                free(lanes);
        }
    EXPECT_EQ(gcoll_lanes_parse(gcoll_lane_rows, "here", "shm:ring_bytes=5000", &lanes, &count),
              GCOLL_ERR_INVALID);
    EXPECT_NE(
        std::string(gcoll_last_error()).find("4Ki, 8Ki, 16Ki, 32Ki, 64Ki, 128Ki, 256Ki, 512Ki, 1Mi bytes"),
        std::string::npos)
        << gcoll_last_error();
}

// Memory larger than a file may be (ulimit -f) is not made: the kernel would end the process.
TEST(Shm, ALimitOfFileSizesIsHeeded) {
    Group group(both(), 2);
    {
        const gcoll_test::FileSizeLimit limit(gcoll_ring_memory(GCOLL_SHM_RING_OF_TWO) - 1);
        meet(group);
    }
    EXPECT_EQ(lane(group[0], 1),
              "tcp (shm: shm: cannot set the size of memory to share: " + std::string(strerror(EFBIG)) + ")");
}

// So many descriptors in messages that nobody has received yet as a user may have. They last as long as this.
class DescriptorsOnTheirWay {
  public:
    DescriptorsOnTheirWay() {
        rlimit low = {};
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
        low = before_;
        low.rlim_cur = kMost;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
        char byte = 0;
        iovec piece = {&byte, 1};
        alignas(cmsghdr) char with[CMSG_SPACE((kMost + 1) * sizeof(int))] = {};
        msghdr header = {};
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        header.msg_control = with;
        header.msg_controllen = sizeof with;
        cmsghdr *part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN((kMost + 1) * sizeof(int));
        for (size_t i = 0; i <= kMost; i++)
            std::memcpy(CMSG_DATA(part) + i * sizeof(int), &ends_[0], sizeof(int));
        EXPECT_EQ(sendmsg(ends_[0], &header, 0), 1) << strerror(errno);
    }
    ~DescriptorsOnTheirWay() {
        close(ends_[1]);
        close(ends_[0]);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
    }
    DescriptorsOnTheirWay(const DescriptorsOnTheirWay &) = delete;
    DescriptorsOnTheirWay &operator=(const DescriptorsOnTheirWay &) = delete;

  private:
    static constexpr size_t kMost = 200;
    rlimit before_ = {};
    int ends_[2] = {-1, -1};
};

// Many ranks that meet at once have many descriptors on their way. The kernel lets a user have no more than
// one process may have open, and ranks wait for that to change.
TEST(Shm, DescriptorsOfOthersOnTheirWayAreWaitedFor) {
    Group group(both(), 2);
    std::string lacking;
    std::thread([&] {
        lacking = getuid() == 0 ? become_nobody() : ""; // root has no such limit
        if (!lacking.empty())
            return;
        const auto state = [&] {
            const gcoll_session *session = gcoll_net_session(gcoll_net_of(group[0].endpoint), 1);
            const auto *pair = session && gcoll_session_has_taken(session, &gcoll_lane_shm)
                                   ? static_cast<gcoll_shm_pair *>(gcoll_session_lane_state(session))
                                   : nullptr;
            return pair ? pair->state : GCOLL_SHM_MEETS;
        };
        group.connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            group[r].send(1 - r, 1, 0, 100);
            group[r].receive(1 - r, 1, 0, 100);
        }
        {
            const DescriptorsOnTheirWay many;
            EXPECT_TRUE(
                group.turn([&] { return state() == GCOLL_SHM_SENDS || group[0].done + group[1].done > 0; }));
            for (int i = 0; i < 100; i++)
                for (uint32_t r = 0; r < 2; r++)
                    group[r].progress(0);
            EXPECT_EQ(state(), GCOLL_SHM_SENDS);
        }
        EXPECT_TRUE(group.turn_until_done());
        for (uint32_t r = 0; r < 2; r++)
            EXPECT_EQ(lane(group[r], 1 - r), "shm");
    }).join();
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks " << lacking;
}

// If that lasts, there is time left for TCP, and a rank waits for it once, not once a peer.
TEST(Shm, DescriptorsThatStayOnTheirWayLeaveTimeForTcp) {
    constexpr uint32_t kRanks = 4;
    Group group(both(), kRanks);
    std::string lacking;
    std::thread([&] {
        lacking = getuid() == 0 ? become_nobody() : ""; // root has no such limit
        if (!lacking.empty())
            return;
        for (uint32_t r = 0; r < kRanks; r++)
            port_of(group[r])->limit_ms = 8000; // of which a quarter is waited
        const DescriptorsOnTheirWay many;
        const int64_t begun = gcoll_now_ms();
        for (uint32_t peer = 1; peer < kRanks; peer++) { // one after the other
            group.connect(0, peer);
            group[0].send(peer, 1, 0, 100);
            group[peer].receive(0, 1, 0, 100);
            EXPECT_TRUE(group.turn_until_done());
            EXPECT_EQ(
                lane(group[0], peer),
                "tcp (shm: shm: too many descriptors of this user stay on their way, so memory cannot be "
                "sent: " +
                    std::string(strerror(ETOOMANYREFS)) + ")");
        }
        const int64_t took = gcoll_now_ms() - begun;
        EXPECT_GE(took, 2000);
        EXPECT_LT(took, 4000);
    }).join();
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks " << lacking;
}

// ---- News of a peer, behind what it has sent ------------------------------------------------------------

// Rank 1 writes messages to the ring, and then leaves, aborts or dies. Rank 0 hears that first, and the
// messages count all the same.
TEST(Shm, WhatAPeerSentCountsBeforeItsNews) {
    for (int news = 0; news < 3; news++)
        for (uint32_t granule : {0u, 4u})
            for (uint32_t count : {1u, 50u, 400u}) {
                SCOPED_TRACE(std::to_string(news) + ", " + std::to_string(count));
                Group group(both(), 2);
                meet(group);
                for (uint32_t i = 0; i < count; i++) {
                    group[0].receive(1, 9, i, 4 * (i % 13), granule);
                    group[1].send(0, 9, i, 4 * (i % 13));
                }
                ASSERT_TRUE(group[1].until_done()); // they are in the ring
                const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 1, "had enough");
                if (news == 0)
                    group[1].close();
                else if (news == 1)
                    both()->abort(group[1].endpoint, &note, 1000);
                else
                    shutdown(gcoll_net_session(gcoll_net_of(group[1].endpoint), 0)->socket->fd, SHUT_RDWR);
                size_t done_by_then = 0;
                group[0].log = [&](const std::string &said) {
                    if (said.find("departed") != std::string::npos ||
                        said.find("aborted") != std::string::npos || said.find("failed") != std::string::npos)
                        done_by_then = group[0].done;
                };
                ASSERT_TRUE(group[0].until([&] {
                    gcoll_net_of(group[0].endpoint)->polls = UINT32_MAX / 2; // it looks at connections first
                    return !group[0].departed.empty() || !group[0].aborted.empty() ||
                           !group[0].failed.empty();
                }));
                EXPECT_EQ(done_by_then, 2u + count);
                group[0].check();
                EXPECT_EQ(group[0].departed.size(), news == 0 ? 1u : 0u);
                EXPECT_EQ(group[0].aborted.size(), news == 1 ? 1u : 0u);
                EXPECT_EQ(group[0].failed.size(), news == 2 ? 1u : 0u);
            }
}

// ---- Processes ------------------------------------------------------------------------------------------

// Two ranks as processes: this one is rank `own`, a forked child the other. They tell their addresses by
// pipes.
class Child {
  public:
    Child(uint32_t own, const std::function<void(Rank &)> &main) {
        int up[2], down[2];
        EXPECT_EQ(pipe(up), 0);
        EXPECT_EQ(pipe(down), 0);
        fflush(nullptr);
        pid_ = fork();
        gcoll_endpoint_options options = options_of(pid_ == 0 ? 1 - own : own, 2);
        const int in = pid_ == 0 ? down[0] : up[0], out = pid_ == 0 ? up[1] : down[1];
        if (pid_ == 0)
            alarm(100);
        rank = std::make_unique<Rank>(both(), options);
        char text[GCOLL_ADDRESS_MAX] = {};
        std::memcpy(text, rank->address().c_str(), rank->address().size());
        EXPECT_EQ(write(out, text, sizeof text), static_cast<ssize_t>(sizeof text));
        EXPECT_EQ(read(in, text, sizeof text), static_cast<ssize_t>(sizeof text));
        for (int fd : {up[0], up[1], down[0], down[1]})
            close(fd);
        EXPECT_EQ(both()->connect(rank->endpoint, 1 - options.rank, text), GCOLL_OK);
        if (pid_ == 0) {
            main(*rank);
            rank->end();
            _exit(testing::Test::HasFailure());
        }
    }
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    std::unique_ptr<Rank> rank; // this process's

  private:
    pid_t pid_;
};

// All that a killed rank had sent arrives, and then its death. The survivor keeps nothing of it.
TEST(Shm, AKilledRankLeavesNothing) {
    take_descriptors_of_process();
    for (uint32_t own : {0u, 1u}) {
        const size_t before = open_descriptors();
        std::vector<std::string> names; // of both sockets
        {
            Child other(own, [own](Rank &rank) {
                for (uint32_t i = 0; i < 100; i++)
                    rank.send(own, 3, i, 1000);
                rank.receive(own, 4, 0, 8); // the other one has seen what it wants to know of this one
                EXPECT_TRUE(rank.until_done());
                kill(getpid(), SIGKILL);
            });
            Rank &rank = *other.rank;
            for (uint32_t i = 0; i < 100; i++)
                rank.receive(1 - own, 3, i, 1000, i % 2 ? 4 : 0);
            // The meeting goes on by words of both, so it has not ended when the other's hello has come.
            ASSERT_TRUE(rank.until([&] { return has_heard(rank, 1 - own); }));
            names = {name_of(port_of(rank)->name), name_of(pair_of(rank, 1 - own)->peer.name)};
            rank.send(1 - own, 4, 0, 8);
            ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
            EXPECT_EQ(rank.done, 101u);
            rank.check();
            EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(rank.failed[0].text, "closed the connection");
            EXPECT_EQ(mappings(), 0u);
        }
        EXPECT_EQ(open_descriptors(), before);
        for (const std::string &name : names)
            EXPECT_EQ(lines_with("/proc/net/unix", name.c_str()), 0u);
    }
}

// A forked child has neither the memory nor the socket, and what it does with its copy of the endpoint is not
// noticed.
TEST(Shm, AForkedChildHasNoPartInIt) {
    const bool can_keep = can_keep_from_children();
    ASSERT_EQ(gcoll_fork_watch(), GCOLL_OK);
    Group group(both(), 2);
    meet(group);
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        const bool is_mapped = mappings() > 0;
        for (uint32_t r = 0; r < 2; r++)
            both()->abandon(group[r].endpoint);
        _exit(is_mapped && can_keep ? 1 : 0);
    }
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
    for (uint32_t i = 0; i < 200; i++) {
        group[0].send(1, 4, i, 5000);
        group[1].receive(0, 4, i, 5000);
    }
    EXPECT_TRUE(group.turn_until_done());
    group[1].check();
    if (!can_keep)
        GTEST_SKIP() << "all but the mapping: madvise(MADV_DONTFORK) does nothing here";
}

// Many ranks on few cores, each waiting for its neighbour, round and round: all of them sleep most of the
// time, and no wake-up is lost, or somebody would sleep to the end of its wait.
TEST(Shm, NobodyMissesAWakeUp) {
    constexpr uint32_t kRanks = 6, kRounds = 300;
    Group group(both(), kRanks);
    meet(group);
    std::atomic<uint32_t> late{0};
    group.each([&](Rank &rank) {
        const uint32_t next = (rank.rank + 1) % kRanks, before = (rank.rank + kRanks - 1) % kRanks;
        for (uint32_t i = 0; i < kRounds; i++) {
            const size_t wanted = rank.done + 2;
            const uint64_t bytes = i % 10 ? 4 : 300000; // more than a ring: room is waited for, too
            rank.receive(before, 5, i, bytes, i % 3 ? 4 : 0);
            if (rank.rank != 0)
                while (rank.done + 1 < wanted) {
                    const auto begun = Clock::now();
                    rank.progress(20 * 1000000);
                    late += Clock::now() - begun > std::chrono::seconds(15);
                }
            rank.send(next, 5, i, bytes);
            while (rank.done < wanted) {
                const auto begun = Clock::now();
                rank.progress(20 * 1000000);
                late += Clock::now() - begun > std::chrono::seconds(15);
            }
        }
        rank.check();
    });
    EXPECT_EQ(late, 0u);
}

// What a peer has not read counts against the sender's own socket. When that is full of it, another peer that
// sleeps is woken all the same.
TEST(Shm, ASleeperIsWokenWhateverOthersHaveNotRead) {
    Group group(both(), 3);
    meet(group);
    const int least = 1; // the kernel makes it a few datagrams
    ASSERT_EQ(setsockopt(port_of(group[0])->fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    gcoll_shm_pair *reads_nothing = pair_of(group[0], 1), *sleeps = pair_of(group[0], 2);
    while (gcoll_shm_door_send(reads_nothing, GCOLL_SHM_BELL, -1) == 0) {
    }
    ASSERT_EQ(gcoll_shm_door_send(sleeps, GCOLL_SHM_BELL, -1), EAGAIN);
    const gcoll_session *session = gcoll_net_session(gcoll_net_of(group[0].endpoint), 2);
    const uint64_t written = session->output.written;
    group[2].receive(0, 5, 0, 100);
    gcoll_lane_shm.arm(gcoll_net_port(group[2].endpoint, &gcoll_lane_shm)); // it is about to sleep
    group[0].send(2, 5, 0, 100);
    both()->flush(group[0].endpoint);
    EXPECT_GT(session->output.written, written) << "nothing wakes it";
    EXPECT_TRUE(group.turn_until_done());
    group[2].check();
}

} // namespace
