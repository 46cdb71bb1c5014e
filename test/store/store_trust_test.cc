// test/store/store_trust_test.cc - tests of the file store among other users: which folders and files it
// accepts, and which files it removes. Other users are made by chown, and by children that give up being
// root, so most cases must run as root.
#include "test/kit/descriptors.h"
#include "test/kit/users.h"
#include "test/store/store_support.h"

#include <grp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

using namespace store_support;

namespace {

constexpr uid_t kStranger = 54321, kOther = 54322;

#define NEEDS_ROOT()                                                                                         \
    if (!gcoll_test::may_be(kStranger))                                                                      \
    GTEST_SKIP() << "only root can be several users, in a namespace that has them"

// Makes a folder that everybody may enter and write. Like /tmp, it has the sticky bit.
std::string public_folder(const TemporaryFolder &folder, mode_t mode = 01777) {
    std::string path = folder.path() + "/public";
    EXPECT_EQ(chmod(folder.path().c_str(), 0755), 0);
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
}

void write_file(const std::string &path, const std::string &text, uid_t owner, mode_t mode) {
    std::ofstream(path) << text;
    ASSERT_EQ(chown(path.c_str(), owner, owner), 0);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

void become(uid_t user) {
    if (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0)
        _exit(98);
}

// Runs `body` as another user, in a child. Returns 0 if it succeeded.
int as_user(uid_t user, const std::function<bool()> &body) {
    pid_t child = fork();
    if (child == 0) {
        become(user);
        bool good = body() && !testing::Test::HasFailure();
        _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string mode_text(mode_t mode) {
    char text[16];
    snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode));
    return text;
}

// A request opens the folder before it refuses it. The folder must not stay open.
TEST(StoreTrust, RefusedFoldersAreClosed) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path());
    ASSERT_NE(store, nullptr);
    ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
    char value[8];
    size_t bytes = 0;
    int64_t sum = 0;
    const size_t before = gcoll_test::open_descriptors();
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_set_new(store.get(), "k", "v", 1), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_get(store.get(), "k", value, sizeof value, &bytes), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 0), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_keep(store.get(), "k", 1000), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_add(store.get(), "k", 1, &sum), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_remove(store.get(), "k"), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_test::open_descriptors(), before);
    EXPECT_EQ(chmod(folder.path().c_str(), 0700), 0);
}

TEST(StoreTrust, FoldersThatOthersOwnOrWriteAreRefused) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    struct {
        uid_t owner;
        mode_t mode;
        bool good;
    } cases[] = {{0, 0700, true},          {0, 0755, true},           {0, 0500, true},
                 {0, 01777, true},         {0, 01770, true},          {0, 0770, false},
                 {0, 0702, false},         {0, 0777, false},          {kStranger, 0700, false},
                 {kStranger, 0777, false}, {kStranger, 01777, false}, {kStranger, 0755, false}};
    for (const auto &row : cases) {
        std::string path = folder.path() + "/store";
        ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
        ASSERT_EQ(chown(path.c_str(), row.owner, row.owner), 0);
        ASSERT_EQ(chmod(path.c_str(), row.mode), 0);
        gcoll_store *made = nullptr;
        gcoll_status status = gcoll_store_open(("file:" + path).c_str(), 1000, &made);
        EXPECT_EQ(status, row.good ? GCOLL_OK : GCOLL_ERR_IO) << row.owner << " " << mode_text(row.mode);
        if (!row.good) {
            for (const std::string &word :
                 {path, "user " + std::to_string(row.owner), "mode " + mode_text(row.mode),
                  std::string("of user 0"), std::string("?shared=1"), std::string("sticky")})
                EXPECT_TRUE(last_error_has(word)) << word << " is not in: " << gcoll_last_error();
            EXPECT_EQ(gcoll_store_open(("file:" + path + "?shared=0").c_str(), 1000, &made), GCOLL_ERR_IO);
        }
        gcoll_store_destroy(made);
        Store trusting = open_store("file:" + path + "?shared=1");
        ASSERT_NE(trusting, nullptr);
        EXPECT_EQ(set(trusting.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(trusting.get(), "k"), "v");
        EXPECT_EQ(gcoll_store_remove(trusting.get(), "k"), GCOLL_OK);
        ASSERT_EQ(rmdir(path.c_str()), 0);
    }
}

TEST(StoreTrust, AFolderThatIsReplacedOrOpenedLaterIsRefusedThen) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    std::string path = folder.path() + "/store";
    Store store = open_store("file:" + path);
    ASSERT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    const auto all_refuse = [&](const std::string &word) {
        int64_t sum;
        for (int i = 0; i < 7; i++) {
            gcoll_status status = i == 0   ? set(store.get(), "k", "w")
                                  : i == 1 ? gcoll_store_set_new(store.get(), "n", "w", 1)
                                  : i == 2 ? gcoll_store_wait(store.get(), "k", 0)
                                  : i == 3 ? gcoll_store_add(store.get(), "c", 1, &sum)
                                  : i == 4 ? gcoll_store_keep(store.get(), "k", 1000)
                                  : i == 5 ? gcoll_store_remove(store.get(), "k")
                                           : GCOLL_ERR_IO;
            EXPECT_EQ(status, GCOLL_ERR_IO) << i;
            EXPECT_TRUE(last_error_has(word)) << i << ": " << gcoll_last_error();
        }
        EXPECT_EQ(get(store.get(), "k"), "<input or output failed>");
        EXPECT_TRUE(last_error_has(word) && last_error_has(path) && last_error_has("\"k\""))
            << gcoll_last_error();
    };
    ASSERT_EQ(chmod(path.c_str(), 0777), 0);
    all_refuse("mode 0777");
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
    EXPECT_EQ(get(store.get(), "k"), "v");
    ASSERT_EQ(rename(path.c_str(), (path + ".old").c_str()), 0);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(chown(path.c_str(), kStranger, kStranger), 0);
    all_refuse("user " + std::to_string(kStranger));
    ASSERT_EQ(rmdir(path.c_str()), 0);
    ASSERT_EQ(symlink((path + ".old").c_str(), path.c_str()), 0);
    EXPECT_EQ(get(store.get(), "k"), "<input or output failed>") << "a link that came later is not followed";
    store.reset();
    EXPECT_EQ(get(open_store("file:" + path).get(), "k"), "v")
        << "one that was there is, to a folder of ours";
}

TEST(StoreTrust, AParentThatEverybodyMayRenameInIsRefused) {
    TemporaryFolder folder;
    std::string parent = folder.path() + "/parent", path = parent + "/a/store";
    ASSERT_EQ(mkdir(parent.c_str(), 0700), 0);
    for (mode_t mode : {mode_t(0777), mode_t(0703), mode_t(01777), mode_t(0770), mode_t(0755)}) {
        bool good = mode != 0777 && mode != 0703;
        ASSERT_EQ(chmod(parent.c_str(), mode), 0);
        gcoll_store *made = nullptr;
        EXPECT_EQ(gcoll_store_open(("file:" + path).c_str(), 1000, &made), good ? GCOLL_OK : GCOLL_ERR_IO);
        if (!good)
            for (const std::string &word :
                 {path, "in " + parent, "mode " + mode_text(mode), std::string("sticky")})
                EXPECT_TRUE(last_error_has(word)) << word << " is not in: " << gcoll_last_error();
        gcoll_store_destroy(made);
        EXPECT_EQ(set(open_store("file:" + path + "?shared=1").get(), "k", "v"), GCOLL_OK);
    }
}

// In a folder with the sticky bit, other users can create files, but cannot touch ours.
TEST(StoreTrust, FilesOfOthersAreRefusedAndTheirOwnerNamed) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    std::string path = public_folder(folder);
    const std::string owner = "user " + std::to_string(kStranger);
    for (mode_t mode : {mode_t(0644), mode_t(0600), mode_t(0666)}) {
        Store store = open_store("file:" + path, 1000);
        write_file(path + "/k", "evil", kStranger, mode);
        write_file(path + "/n", "7", kStranger, mode);
        int64_t sum = 0;
        for (int i = 0; i < 5; i++) {
            gcoll_status status = i == 0   ? set(store.get(), "k", "v")
                                  : i == 1 ? gcoll_store_set_new(store.get(), "k", "v", 1)
                                  : i == 2 ? gcoll_store_wait(store.get(), "k", 1000)
                                  : i == 3 ? gcoll_store_add(store.get(), "n", 1, &sum)
                                           : gcoll_store_keep(store.get(), "k", 1000);
            EXPECT_EQ(status, GCOLL_ERR_IO) << i;
            EXPECT_TRUE(last_error_has(owner) && last_error_has("mode " + mode_text(mode)) &&
                        last_error_has(path))
                << i << ": " << gcoll_last_error();
        }
        EXPECT_EQ(get(store.get(), "k"), "<input or output failed>");
        EXPECT_TRUE(last_error_has(owner)) << gcoll_last_error();
        EXPECT_EQ(sum, 0);
        EXPECT_EQ(get(open_store("file:" + path + "?shared=1").get(), "k"), "evil");
        // A user that is not root cannot remove or replace these files, and perhaps not open them. The error
        // names the owner all the same.
        EXPECT_EQ(as_user(kOther,
                          [&] {
                              Store mine = open_store("file:" + path, 1000);
                              bool good =
                                  get(mine.get(), "k") == "<input or output failed>" && last_error_has(owner);
                              good =
                                  good && set(mine.get(), "k", "v") == GCOLL_ERR_IO && last_error_has(owner);
                              good = good && gcoll_store_remove(mine.get(), "k") == GCOLL_ERR_IO &&
                                     last_error_has(owner);
                              good = good && set(mine.get(), "mine", "v") == GCOLL_OK &&
                                     get(mine.get(), "mine") == "v";
                              return good && gcoll_store_remove(mine.get(), "mine") == GCOLL_OK;
                          }),
                  0);
        EXPECT_EQ(unlink((path + "/k").c_str()), 0);
        EXPECT_EQ(unlink((path + "/n").c_str()), 0);
        // The lock file of a counter belongs to another user.
        ASSERT_EQ(gcoll_store_add(store.get(), "c", 1, nullptr), GCOLL_OK) << gcoll_last_error();
        for (const auto &item : std::filesystem::directory_iterator(path))
            if (item.path().filename().string().rfind(".lock+", 0) == 0)
                ASSERT_EQ(chown(item.path().c_str(), kStranger, kStranger), 0);
        EXPECT_EQ(gcoll_store_add(store.get(), "c", 1, &sum), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has(owner) && last_error_has(".lock+")) << gcoll_last_error();
        for (const auto &item : std::filesystem::directory_iterator(path))
            std::filesystem::remove(item.path());
    }
    Store store = open_store("file:" + path);
    write_file(path + "/k", "v", 0, 0666);
    EXPECT_EQ(get(store.get(), "k"), "<input or output failed>")
        << "ours, but everybody could have written it";
    EXPECT_TRUE(last_error_has("mode 0666")) << gcoll_last_error();
}

// ---- Hijack
// ------------------------------------------------------------------------------------------------

// State that victim and attacker share: the attacker's current round; the number of rounds that the victim
// has done; how often the attacker has attacked; and how often the victim has read.
struct Race {
    std::atomic<int> attacking{-1}, done{0}, planted{0}, looks{0};
};

void plant(const std::string &folder) {
    std::string aside = folder + "/evil." + std::to_string(getpid());
    int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    bool written = write(fd, "evil", 4) == 4;
    close(fd);
    (void)!(written && rename(aside.c_str(), (folder + "/addr").c_str()) == 0);
}

// Runs rounds in which the victim opens a store, sets its address and reads it, while the attacker works in
// the same place. Returns the number of rounds in which the victim read the attacker's value.
int hijacked(int rounds, const std::string &place, Race *race,
             const std::function<void(const std::string &)> &attack) {
    pid_t attacker = fork();
    if (attacker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(kStranger);
        umask(0);
        for (int round = 0; round < rounds; round++) {
            std::string path = place + "/" + std::to_string(round);
            for (race->attacking = round; race->done <= round;) {
                int before = race->looks;
                attack(path);
                race->planted++;
                // Leaves the attack in place until the victim has read, but not for long.
                for (auto began = Clock::now();
                     race->looks == before && race->done <= round && ms_since(began) < 0.5;) {
                }
            }
        }
        _exit(0);
    }
    int lost = 0, status = 0;
    bool has_ended = false;
    const auto wait_while = [&](const auto &holds) {
        while (holds() && !has_ended) {
            sched_yield();
            has_ended = waitpid(attacker, &status, WNOHANG) == attacker;
        }
    };
    const auto await_attacks = [&](int count) {
        const int before = race->planted;
        wait_while([&] { return race->planted < before + count; });
    };
    for (int round = 0; round < rounds; round++) {
        std::string path = place + "/" + std::to_string(round);
        wait_while([&] { return race->attacking < round; });
        if (round % 2 == 0) // the attacker makes its folder before the victim opens it
            await_attacks(2);
        gcoll_store *made = nullptr;
        if (gcoll_store_open(("file:" + path).c_str(), 1000, &made) == GCOLL_OK) {
            Store store(made);
            set(made, "addr", "mine");
            bool is_lost = false;
            for (int i = 0; i < 4; i++) {
                await_attacks(1);
                std::string value = get(made, "addr");
                race->looks++;
                is_lost |= value == "evil";
                EXPECT_TRUE(value == "evil" || value == "mine" || value[0] == '<') << value;
            }
            lost += is_lost;
        }
        race->done = round + 1;
    }
    if (!has_ended)
        waitpid(attacker, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return lost;
}

// In a folder like /tmp, the attacker tries to make the store's folder first, and replaces an address.
TEST(StoreTrust, AnAttackerThatMakesTheFolderFirstHijacksNobody) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    std::string place = public_folder(folder);
    void *memory = mmap(nullptr, sizeof(Race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    EXPECT_EQ(hijacked(100, place, new (memory) Race,
                       [](const std::string &path) {
                           (void)!mkdir(path.c_str(), 0777);
                           plant(path);
                       }),
              0);
    munmap(memory, sizeof(Race));
}

// The attacker may write the parent, and replaces our folder by its own, again and again.
TEST(StoreTrust, AnAttackerThatReplacesTheFolderHijacksNobody) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    std::string place = public_folder(folder, 0770);
    ASSERT_EQ(chown(place.c_str(), 0, kStranger), 0);
    void *memory = mmap(nullptr, sizeof(Race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    EXPECT_EQ(hijacked(100, place, new (memory) Race,
                       [](const std::string &path) {
                           std::string evil = path + ".evil", away = path + ".away";
                           struct stat info = {};
                           bool is_ours = stat(away.c_str(), &info) == 0; // the victim's folder is away
                           if (is_ours) {
                               (void)!rename(path.c_str(), evil.c_str());
                               (void)!rename(away.c_str(), path.c_str());
                               return;
                           }
                           (void)!mkdir(evil.c_str(), 0777);
                           plant(evil);
                           (void)!rename(path.c_str(), away.c_str());
                           (void)!rename(evil.c_str(), path.c_str());
                       }),
              0);
    munmap(memory, sizeof(Race));
}

// ---- URLs
// --------------------------------------------------------------------------------------------------

TEST(StoreTrust, ParametersStandBehindTheLastQuestionMark) {
    TemporaryFolder folder;
    const std::string base = folder.path() + "/";
    for (const auto &[url, made] : {std::pair<std::string, std::string>("plain", "plain"),
                                    {"one?shared=1", "one"},
                                    {"two?shared=0&shared=1", "two"},
                                    {"what?/store?", "what?/store"},
                                    {"what??shared=1", "what?"},
                                    {"percent%3f", "percent%3f"}}) {
        Store store = open_store("file:" + base + url);
        EXPECT_NE(store, nullptr) << url;
        EXPECT_TRUE(std::filesystem::is_directory(base + made)) << made;
    }
    for (const std::string &parameter :
         {std::string("shared"), std::string("shared=2"), std::string("shared=1x"), std::string("shared=1&x"),
          std::string("&"), std::string("x\x1b[2J"), std::string(5000, 'x'), std::string("b/c")}) {
        gcoll_store *made = nullptr;
        EXPECT_EQ(gcoll_store_open(("file:" + base + "bad?" + parameter).c_str(), 1000, &made),
                  GCOLL_ERR_INVALID)
            << parameter;
        EXPECT_TRUE(last_error_has("shared=1")) << gcoll_last_error();
        EXPECT_EQ(strchr(gcoll_last_error(), '\x1b'), nullptr);
        EXPECT_FALSE(std::filesystem::exists(base + "bad"));
    }
    gcoll_store *made = nullptr;
    EXPECT_EQ(gcoll_store_open("file:?shared=1", 1000, &made), GCOLL_ERR_INVALID);
}

// ---- Sweeping
// ----------------------------------------------------------------------------------------------

// Makes a file look as if nobody had touched it for this time.
void age(const std::string &path, int64_t seconds) {
    timespec times[2] = {};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = time(nullptr) - seconds;
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
}

constexpr int64_t kDay = 86400, kHour = 3600;

std::set<std::string> names_in(const TemporaryFolder &folder) {
    std::vector<std::string> names = folder.names();
    return std::set<std::string>(names.begin(), names.end());
}

void touch(const std::string &path) {
    std::ofstream(path) << "x";
}

TEST(StoreSweep, WhatACrashedJobLeftIsRemovedADayLater) {
    TemporaryFolder folder;
    const std::string base = folder.path() + "/";
    {
        Store store = open_store("file:" + folder.path());
        for (const char *key : {"gcoll/default/join.1", "gcoll/j/0011/addr.0", "mine/and-only/gcoll/j/go",
                                "gcoll/j/live", "gcoll/j/kept", "app/state", "results", "gcoll"})
            ASSERT_EQ(set(store.get(), key, "x"), GCOLL_OK);
        ASSERT_EQ(gcoll_store_add(store.get(), "gcoll/j/0011/left", 1, nullptr), GCOLL_OK);
    }
    touch(base + ".tmp+0011223344556677");
    touch(base + ".tmp+ffffffffffffffff");
    // Names that are not the store's.
    for (const char *name : {".tmp+00112233445566", ".tmp+001122334455667x", ".tmpfile", ".lock",
                             "libgcoll+x", "notes.gcoll", "gcoll+a b", "gcoll.txt"})
        touch(base + name);
    ASSERT_EQ(mkdir((base + "gcoll+folder").c_str(), 0700), 0);
    ASSERT_EQ(symlink("notes.gcoll", (base + "gcoll+link").c_str()), 0);
    std::set<std::string> all = names_in(folder), expected = all;
    for (const std::string &name : all)
        age(base + name, kDay + kHour);
    age(base + "gcoll+j+live", kDay - kHour);
    age(base + ".tmp+ffffffffffffffff", kDay - kHour);
    age(base + "gcoll+j+kept", kDay + kHour);
    {
        Store store =
            open_store("file:" + folder.path() + "/elsewhere"); // opening another folder sweeps nothing here
        EXPECT_EQ(names_in(folder).size(), all.size() + 1);
    }
    std::filesystem::remove(base + "elsewhere");
    for (auto name = expected.begin(); name != expected.end();)
        name = name->rfind(".lock+", 0) == 0 ? expected.erase(name) : std::next(name);
    for (const char *name : {"gcoll+default+join.1", "gcoll+j+0011+addr.0", "mine+and-only+gcoll+j+go",
                             "gcoll+j+0011+left", "gcoll+j+kept", ".tmp+0011223344556677"})
        EXPECT_EQ(expected.erase(name), 1u) << name;
    Store store = open_store("file:" + folder.path());
    EXPECT_EQ(names_in(folder), expected);
}

TEST(StoreSweep, WhatIsSetOrKeptStays) {
    TemporaryFolder folder;
    const std::string url = "file:" + folder.path(), base = folder.path() + "/";
    Store live = open_store(url);
    for (const char *key :
         {"gcoll/j/set", "gcoll/j/kept", "gcoll/j/week", "gcoll/j/rewritten", "gcoll/j/dead"})
        ASSERT_EQ(set(live.get(), key, "5"), GCOLL_OK);
    ASSERT_EQ(gcoll_store_add(live.get(), "gcoll/j/count", 1, nullptr), GCOLL_OK);
    for (const std::string &name : folder.names())
        age(base + name, 2 * kDay);
    ASSERT_EQ(set(live.get(), "gcoll/j/set", "6"), GCOLL_OK);
    ASSERT_EQ(gcoll_store_add(live.get(), "gcoll/j/count", 1, nullptr), GCOLL_OK);
    ASSERT_EQ(gcoll_store_keep(live.get(), "gcoll/j/kept", 1000), GCOLL_OK);
    for (const char *key : {"gcoll/j/week", "gcoll/j/rewritten"})
        ASSERT_EQ(gcoll_store_keep(live.get(), key, 7 * kDay * 1000), GCOLL_OK);
    ASSERT_EQ(set(live.get(), "gcoll/j/rewritten", "7"), GCOLL_OK);
    // A key that was kept for a week 6 days and 23 hours ago.
    for (const char *name : {"gcoll+j+week", "gcoll+j+rewritten"}) {
        struct stat info = {};
        ASSERT_EQ(stat((base + name).c_str(), &info), 0);
        age(base + name, time(nullptr) - info.st_mtim.tv_sec + 6 * kDay + 23 * kHour);
    }
    Store later = open_store(url);
    for (const auto &[key, value] : {std::pair<std::string, std::string>("set", "6"),
                                     {"count", "2"},
                                     {"kept", "5"},
                                     {"week", "5"},
                                     {"rewritten", "7"},
                                     {"dead", "<not found>"}})
        EXPECT_EQ(get(later.get(), "gcoll/j/" + key), value) << key;
    for (const char *name : {"gcoll+j+week", "gcoll+j+rewritten"}) {
        struct stat info = {};
        ASSERT_EQ(stat((base + name).c_str(), &info), 0);
        age(base + name, time(nullptr) - info.st_mtim.tv_sec + 2 * kHour);
    }
    later = open_store(url);
    EXPECT_EQ(get(later.get(), "gcoll/j/week"), "<not found>");
    EXPECT_EQ(get(later.get(), "gcoll/j/rewritten"), "<not found>");
}

TEST(StoreSweep, ALockThatIsHeldStays) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path(), 100);
    ASSERT_EQ(gcoll_store_add(store.get(), "gcoll/j/n", 1, nullptr), GCOLL_OK);
    std::string lock;
    for (const std::string &name : folder.names())
        if (name.rfind(".lock+", 0) == 0)
            lock = folder.path() + "/" + name;
    ASSERT_NE(lock, "");
    age(lock, 2 * kDay);
    int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC);
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    ASSERT_EQ(fcntl(fd, F_OFD_SETLK, &whole), 0);
    open_store("file:" + folder.path());
    EXPECT_TRUE(std::filesystem::exists(lock));
    close(fd);
    open_store("file:" + folder.path());
    EXPECT_FALSE(std::filesystem::exists(lock));
    int64_t sum = 0;
    EXPECT_EQ(gcoll_store_add(store.get(), "gcoll/j/n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 2);
}

TEST(StoreSweep, FilesOfOthersStay) {
    NEEDS_ROOT();
    TemporaryFolder folder;
    std::string path = public_folder(folder);
    write_file(path + "/gcoll+j+theirs", "x", kStranger, 0600);
    write_file(path + "/gcoll+j+ours", "x", 0, 0600);
    age(path + "/gcoll+j+theirs", 2 * kDay);
    age(path + "/gcoll+j+ours", 2 * kDay);
    open_store("file:" + path);
    EXPECT_TRUE(std::filesystem::exists(path + "/gcoll+j+theirs"));
    EXPECT_FALSE(std::filesystem::exists(path + "/gcoll+j+ours"));
}

// Each opening checks a limited number of files; several openings check all.
TEST(StoreSweep, ALargeFolderIsSweptBitByBit) {
    constexpr int kOld = 1300, kNew = 90, kMostAtOnce = 1100;
    TemporaryFolder folder;
    const std::string url = "file:" + folder.path(), base = folder.path() + "/";
    for (int i = 0; i < kOld + kNew; i++) {
        std::string path = base + "gcoll+j+" + std::to_string(i);
        int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_GE(fd, 0);
        close(fd);
        if (i >= kNew)
            age(path, 2 * kDay);
    }
    open_store(url);
    size_t left = folder.names().size();
    EXPECT_GE(left, static_cast<size_t>(kOld + kNew - kMostAtOnce)) << "more than the limit at once";
    EXPECT_LT(left, static_cast<size_t>(kOld + kNew)) << "nothing was done";
    for (int i = 0; i < 2000 && left > kNew; i++) {
        open_store(url);
        left = folder.names().size();
    }
    EXPECT_EQ(left, static_cast<size_t>(kNew));
}

// Several threads sweep at the same time, while a job sets keys whose files are old, from an earlier run.
// If a sweeper takes a new file for an old one, it puts the file back a moment later.
TEST(StoreSweep, SweepersAtOnceDisturbNobody) {
    constexpr int kSweepers = 3, kRounds = 40, kKeys = 5;
    TemporaryFolder folder;
    const std::string url = "file:" + folder.path(), base = folder.path() + "/";
    const auto leftover = [&](int i) { return base + "gcoll+old+" + std::to_string(i); };
    // Does nothing if the file was swept already.
    const auto grow_old = [](const std::string &file) {
        const timespec old[2] = {{time(nullptr) - 2 * kDay, 0}, {time(nullptr) - 2 * kDay, 0}};
        utimensat(AT_FDCWD, file.c_str(), old, 0);
    };
    std::atomic<bool> done{false};
    std::atomic<int> failed{0};
    std::vector<std::thread> sweepers;
    for (int i = 0; i < kSweepers; i++)
        sweepers.emplace_back([&] {
            while (!done) {
                gcoll_store *made = nullptr;
                failed += gcoll_store_open(url.c_str(), 1000, &made) != GCOLL_OK;
                gcoll_store_destroy(made);
            }
        });
    Store store = open_store(url);
    for (int round = 0; round < kRounds; round++) {
        for (int i = 0; i < kKeys; i++) {
            std::string key = "gcoll/j/" + std::to_string(i), file = base + "gcoll+j+" + std::to_string(i);
            std::string value = std::to_string(round);
            touch(leftover(i));
            grow_old(leftover(i)); /* it has no name while a sweeper finds it new, and puts it back */
            grow_old(file);
            EXPECT_EQ(set(store.get(), key, value), GCOLL_OK) << gcoll_last_error();
            std::string found;
            const time_t end = time(nullptr) + 10;
            while (found != value && time(nullptr) < end)
                found = get(store.get(), key);
            EXPECT_EQ(found, value) << "lost for good";
        }
    }
    done = true;
    for (std::thread &sweeper : sweepers)
        sweeper.join();
    EXPECT_EQ(failed, 0);
    for (int i = 0; i < kKeys; i++)
        grow_old(leftover(i));
    open_store(url);
    EXPECT_EQ(folder.names().size(), static_cast<size_t>(kKeys));
}

} // namespace
