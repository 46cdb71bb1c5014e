// test/store/store_file_test.cc - tests of the file store: folders that cannot be used, locks, full disks,
// and the files that remain.
#include "test/store/store_support.h"

#include "test/kit/file_size_limit.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

using namespace store_support;

namespace {

// A small file system in a folder. Needs the right to mount.
class Mount {
  public:
    explicit Mount(const std::string &options) {
        mounted_ = mount("gcoll_test", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    ~Mount() {
        if (mounted_)
            umount2(folder_.path().c_str(), MNT_DETACH);
    }
    Mount(const Mount &) = delete;
    Mount &operator=(const Mount &) = delete;
    bool mounted() const { return mounted_; }
    bool make_read_only() {
        return mount(nullptr, folder_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    }
    const TemporaryFolder &folder() const { return folder_; }

  private:
    TemporaryFolder folder_;
    bool mounted_;
};

std::string lock_file_of(const TemporaryFolder &folder) {
    for (const std::string &name : folder.names())
        if (name.rfind(".lock", 0) == 0)
            return folder.path() + "/" + name;
    return "";
}

TEST(StoreFile, MakesTheFolderAndItsParentsForThisUserOnly) {
    TemporaryFolder folder;
    std::string deep = folder.path() + "//a/b/c/";
    Store store = open_store("file:" + deep);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    for (const char *part : {"/a", "/a/b", "/a/b/c"}) {
        struct stat info = {};
        ASSERT_EQ(stat((folder.path() + part).c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0077, 0u) << part;
    }
    EXPECT_EQ(get(open_store("file:" + deep).get(), "k"), "v");
}

TEST(StoreFile, RanksThatMakeTheFolderAtOnceAllGetIt) {
    TemporaryFolder folder;
    std::string deep = "file:" + folder.path() + "/x/y/z";
    EXPECT_EQ(in_processes(8,
                           [&](int) {
                               gcoll_store *store = nullptr;
                               bool good = gcoll_store_open(deep.c_str(), 1000, &store) == GCOLL_OK;
                               gcoll_store_destroy(store);
                               return good;
                           }),
              8);
}

TEST(StoreFile, KeepsToItsFolderWhenTheProcessMoves) {
    TemporaryFolder folder;
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(chdir(folder.path().c_str()), 0);
    Store store = open_store("file:relative/folder");
    ASSERT_EQ(fchdir(here), 0);
    close(here);
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    EXPECT_EQ(get(open_store("file:" + folder.path() + "/relative/folder").get(), "k"), "v");
}

TEST(StoreFile, FoldersThatCannotBeAreRefusedByName) {
    TemporaryFolder folder;
    std::string file = folder.path() + "/a-file";
    std::ofstream(file) << "x";
    for (const std::string &path : {file, file + "/below", file + "/far/below", std::string("/proc/gcoll/x"),
                                    folder.path() + "/" + std::string(300, 'n')}) {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_open(("file:" + path).c_str(), 1000, &store), GCOLL_ERR_IO) << path;
        EXPECT_TRUE(last_error_has(path)) << gcoll_last_error();
        EXPECT_EQ(store, nullptr);
    }
}

TEST(StoreFile, LeavesNothingBehind) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path());
    int64_t sum;
    std::vector<std::string> keys = {"a", "a/b", "counter", "..", ".tmp", "text"};
    for (const std::string &key : keys)
        ASSERT_EQ(set(store.get(), key, "7"), GCOLL_OK);
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(gcoll_store_add(store.get(), "counter", 1, &sum), GCOLL_OK);
    ASSERT_EQ(gcoll_store_add(store.get(), "other/counter", 1, &sum), GCOLL_OK);
    ASSERT_EQ(set(store.get(), "text", "no number"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_add(store.get(), "text", 1, &sum), GCOLL_ERR_INVALID);
    EXPECT_EQ(set(store.get(), "large", std::string(GCOLL_STORE_VALUE_MAX + 1, 'x')), GCOLL_ERR_INVALID);
    EXPECT_EQ(get(store.get(), "absent"), "<not found>");
    EXPECT_EQ(gcoll_store_wait(store.get(), "absent", 5), GCOLL_ERR_TIMEOUT);
    keys.push_back("other/counter");
    for (const std::string &key : keys)
        EXPECT_EQ(gcoll_store_remove(store.get(), key.c_str()), GCOLL_OK);
    store.reset();
    EXPECT_EQ(folder.names(), std::vector<std::string>());
}

TEST(StoreFile, AddsFromManyProcessesAreAtomic) {
    constexpr int kProcesses = 4, kAdds = 100;
    TemporaryFolder folder;
    std::string url = "file:" + folder.path();
    EXPECT_EQ(add_in_processes(kProcesses, url, kAdds), kProcesses);
    Store store = open_store(url);
    EXPECT_EQ(get(store.get(), "n"), std::to_string(3 * kProcesses * kAdds));
    ASSERT_EQ(gcoll_store_remove(store.get(), "n"), GCOLL_OK);
    EXPECT_EQ(folder.names(), std::vector<std::string>());
}

// A stopped rank that holds a counter's lock costs others their timeout. Once it is killed, it costs nothing.
TEST(StoreFile, AHeldLockEndsInTimeAndADeadHolderIsNoHolder) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path(), 120);
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    std::string name = lock_file_of(folder);
    ASSERT_NE(name, "");
    int locked[2];
    ASSERT_EQ(pipe(locked), 0);
    pid_t holder = fork();
    if (holder == 0) {
        struct flock whole = {};
        whole.l_type = F_WRLCK;
        int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
        char good = fcntl(fd, F_OFD_SETLK, &whole) == 0;
        if (write(locked[1], &good, 1) == 1)
            pause();
        _exit(0);
    }
    char good = 0;
    EXPECT_EQ(read(locked[0], &good, 1), 1);
    EXPECT_EQ(good, 1);
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT);
    EXPECT_GE(ms_since(began), 120);
    EXPECT_LT(ms_since(began), 120 + kLateMs);
    EXPECT_TRUE(last_error_has("\"n\"") && last_error_has(folder.path())) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_remove(store.get(), "n"), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(get(store.get(), "n"), "1");
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(gcoll_store_remove(store.get(), "n"), GCOLL_OK);
    EXPECT_EQ(folder.names(), std::vector<std::string>());
    close(locked[0]);
    close(locked[1]);
}

// Tests limits other than the store's own timeout: a rank that leaves must not wait for long.
TEST(StoreFile, ATimeoutOfTheHandleBoundsWaitingForAStoppedHolderOfTheLock) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path(), 60000);
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    std::string name = lock_file_of(folder);
    pid_t holder = fork();
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct flock whole = {};
        whole.l_type = F_WRLCK;
        int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
        if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
            raise(SIGSTOP);
        _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(holder, &status, WUNTRACED), holder);
    ASSERT_TRUE(WIFSTOPPED(status));
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 100), GCOLL_OK);
    for (int i = 0; i < 2; i++) {
        auto began = Clock::now();
        EXPECT_EQ(i == 0 ? gcoll_store_add(store.get(), "n", 1, &sum) : gcoll_store_remove(store.get(), "n"),
                  GCOLL_ERR_TIMEOUT);
        EXPECT_GE(ms_since(began), 100);
        EXPECT_LT(ms_since(began), 100 + kLateMs);
        EXPECT_TRUE(last_error_has("for 100 ms")) << gcoll_last_error();
    }
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 0), GCOLL_OK);
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(gcoll_store_add(store.get(), "free", 1, &sum), GCOLL_OK) << "nobody holds that one";
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), -1), GCOLL_OK);
    EXPECT_EQ(gcoll_store_remove(store.get(), "n"), GCOLL_OK);
}

int take_lock(const std::string &path) {
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fcntl(fd, F_OFD_SETLK, &whole) == 0 ? fd : -1;
}

// While other ranks add, a rank that waits for its turn is not stuck, however many they are. Here the lock is
// held all the time, and the key changes as if they added.
TEST(StoreFile, WaitingForALockCountsAnewWhileOthersAdd) {
    constexpr int64_t kTimeoutMs = 300;
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path(), kTimeoutMs),
          other = open_store("file:" + folder.path());
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    const int held = take_lock(lock_file_of(folder));
    ASSERT_GE(held, 0);
    std::atomic<bool> given_up{false};
    std::thread adders([&] { // for three times the limit, then never again
        for (int i = 0; i < 6 && !given_up; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(kTimeoutMs / 2));
            EXPECT_EQ(set(other.get(), "n", std::to_string(10 + i)), GCOLL_OK);
        }
    });
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT);
    EXPECT_GE(ms_since(began), 3 * kTimeoutMs);
    given_up = true;
    adders.join();
    given_up = false;
    std::thread endless([&] {
        for (int i = 0; !given_up || i == 0; i++, std::this_thread::sleep_for(std::chrono::milliseconds(1)))
            EXPECT_EQ(set(other.get(), "n", std::to_string(i)), GCOLL_OK);
    });
    EXPECT_EQ(gcoll_store_set_timeout(store.get(), 30), GCOLL_OK);
    began = Clock::now();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT) << "it has an end";
    EXPECT_LT(ms_since(began), 10 * 30 + kLateMs);
    given_up = true;
    endless.join();
    close(held);
    EXPECT_EQ(set(store.get(), "n", "41"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 42);
}

// Counts this process's descriptors of the file that has this name now.
int open_count(const std::string &path) {
    int count = 0;
    for (const auto &item : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        count += std::filesystem::read_symlink(item.path(), gone) == path;
    }
    return count;
}

// A rank that waited for a lock gets the lock of a file that was removed meanwhile. That lock does not count.
TEST(StoreFile, ALockThatWasRemovedIsTakenAnew) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path());
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    std::string name = lock_file_of(folder);
    int old_lock = take_lock(name);
    ASSERT_GE(old_lock, 0);
    std::atomic<bool> added{false};
    std::thread adder([&] {
        Store mine = open_store("file:" + folder.path(), 20000);
        EXPECT_EQ(gcoll_store_add(mine.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
        added = true;
    });
    while (open_count(name) < 2)
        std::this_thread::yield();
    EXPECT_EQ(unlink(name.c_str()), 0);
    int new_lock = take_lock(name);
    EXPECT_GE(new_lock, 0);
    close(old_lock);
    while (open_count(name) < 2 && !added)
        std::this_thread::yield();
    EXPECT_FALSE(added) << "it took the old lock for one";
    EXPECT_EQ(set(store.get(), "n", "41"), GCOLL_OK);
    close(new_lock);
    adder.join();
    EXPECT_EQ(sum, 42);
}

TEST(StoreFile, WhatIsNoValueIsNotRead) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path());
    std::ofstream(folder.path() + "/long") << std::string(GCOLL_STORE_VALUE_MAX + 1, 'x');
    std::ofstream(folder.path() + "/elsewhere") << "x";
    ASSERT_EQ(mkdir((folder.path() + "/folder").c_str(), 0700), 0);
    ASSERT_EQ(mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
    ASSERT_EQ(symlink("elsewhere", (folder.path() + "/link").c_str()), 0);
    for (const char *key : {"long", "folder", "pipe", "link"}) {
        int64_t sum;
        EXPECT_EQ(get(store.get(), key), "<input or output failed>") << key;
        EXPECT_TRUE(last_error_has(std::string("\"") + key + "\"")) << gcoll_last_error();
        EXPECT_EQ(gcoll_store_add(store.get(), key, 1, &sum), GCOLL_ERR_IO) << key;
    }
    EXPECT_EQ(set(store.get(), "folder", "v"), GCOLL_ERR_IO);
    for (const std::string &name : folder.names())
        EXPECT_NE(name[0], '.') << name << " was left";
}

TEST(StoreFile, AFolderThatVanishesIsReported) {
    TemporaryFolder folder;
    std::string path = folder.path() + "/gone";
    Store store = open_store("file:" + path);
    ASSERT_EQ(rmdir(path.c_str()), 0);
    auto began = Clock::now();
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has(path) && last_error_has("\"k\"")) << gcoll_last_error();
    EXPECT_EQ(get(store.get(), "k"), "<input or output failed>");
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 60000), GCOLL_ERR_IO);
    EXPECT_LT(ms_since(began), kLateMs);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << "made again, it works again";
}

// The kernel would end a process that writes more than a file may have (ulimit -f).
TEST(StoreFile, ALimitOfFileSizesFailsWritesAndLosesNothing) {
    TemporaryFolder folder;
    Store store = open_store("file:" + folder.path());
    int64_t sum = 0;
    ASSERT_EQ(set(store.get(), "old", "1234"), GCOLL_OK);
    {
        const gcoll_test::FileSizeLimit limit(4);
        EXPECT_EQ(set(store.get(), "fits", "1234"), GCOLL_OK);
        EXPECT_EQ(set(store.get(), "old", "12345"), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has(strerror(EFBIG)) && last_error_has("\"old\"")) << gcoll_last_error();
    }
    {
        const gcoll_test::FileSizeLimit limit(0);
        EXPECT_EQ(gcoll_store_add(store.get(), "counter", 1, &sum), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has(strerror(EFBIG)) && last_error_has("\"counter\"")) << gcoll_last_error();
    }
    EXPECT_EQ(get(store.get(), "old"), "1234");
    EXPECT_EQ(get(store.get(), "fits"), "1234");
    for (const std::string &name : folder.names())
        EXPECT_TRUE(name[0] != '.' || name.rfind(".lock", 0) == 0) << name << " was left";
}

TEST(StoreFile, AReadOnlyFolderFailsWritesAtOnce) {
    Mount disk("size=256k");
    if (!disk.mounted())
        GTEST_SKIP() << "no right to mount a tmpfs: " << strerror(errno);
    Store store = open_store("file:" + disk.folder().path());
    int64_t sum;
    ASSERT_EQ(set(store.get(), "there", "5"), GCOLL_OK);
    ASSERT_TRUE(disk.make_read_only());
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has(strerror(EROFS)) && last_error_has("\"k\"")) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_add(store.get(), "there", 1, &sum), GCOLL_ERR_IO);
    EXPECT_EQ(gcoll_store_remove(store.get(), "there"), GCOLL_ERR_IO);
    EXPECT_EQ(get(store.get(), "there"), "5");
    EXPECT_EQ(gcoll_store_wait(store.get(), "there", 0), GCOLL_OK);
}

TEST(StoreFile, AFullDiskFailsWritesAtOnceAndLosesNothing) {
    Mount disk("size=256k");
    if (!disk.mounted())
        GTEST_SKIP() << "no right to mount a tmpfs: " << strerror(errno);
    Store store = open_store("file:" + disk.folder().path());
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK);
    int kept = 0;
    gcoll_status status = GCOLL_OK;
    std::string value(GCOLL_STORE_VALUE_MAX, 'x');
    for (; kept < 100 && status == GCOLL_OK; kept += status == GCOLL_OK)
        status = set(store.get(), "k" + std::to_string(kept), value);
    EXPECT_EQ(status, GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has(strerror(ENOSPC)) && last_error_has("k" + std::to_string(kept)))
        << gcoll_last_error();
    ASSERT_GT(kept, 0);
    // Fills the last pages, too, so that even a counter finds no room.
    for (int i = 0; set(store.get(), "small" + std::to_string(i), "x") == GCOLL_OK; i++)
        ASSERT_LT(i, 1000);
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_IO);
    EXPECT_EQ(get(store.get(), "n"), "1");
    EXPECT_EQ(get(store.get(), "k0"), value);
    EXPECT_EQ(set(store.get(), "k0", value), GCOLL_ERR_IO) << "the old value takes its room until replaced";
    EXPECT_EQ(get(store.get(), "k0"), value);
    for (const std::string &name : disk.folder().names())
        EXPECT_NE(name.rfind(".tmp", 0), 0u) << name << " was left";
    EXPECT_EQ(gcoll_store_remove(store.get(), "k0"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 2);
}

} // namespace
