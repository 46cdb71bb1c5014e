// test/store/store_signed_test.cc - the view of a store whose values are signed by the job's secret.
#include "test/store/store_support.h"

#include <array>

extern "C" {
#include "gcoll/store/signed.h"
}

using namespace store_support;

namespace {

using Secret = std::array<uint8_t, 32>;

constexpr size_t kMoreBytes = 78; // by which a signed value is longer

Secret secret_of(uint8_t first) {
    Secret secret;
    for (size_t i = 0; i < secret.size(); i++)
        secret[i] = static_cast<uint8_t>(first + i);
    return secret;
}

class Signed : public testing::Test {
  protected:
    void SetUp() override {
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        base = Store(store);
        own = view(&ours);
        other = view(&theirs);
        none = view(nullptr);
    }
    Store view(const Secret *secret) const {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_signed_create(base.get(), secret ? secret->data() : nullptr, &store), GCOLL_OK);
        return Store(store);
    }
    // The status of a get, whose value must not be touched then.
    static gcoll_status refused(const Store &store, const std::string &key) {
        char room[16] = "before";
        size_t bytes = 77;
        const gcoll_status status = gcoll_store_get(store.get(), key.c_str(), room, sizeof room, &bytes);
        EXPECT_STREQ(room, "before");
        EXPECT_EQ(bytes, 77u);
        return status;
    }
    const Secret ours = secret_of(1), theirs = secret_of(2);
    Store base, own, other, none;
};

TEST_F(Signed, ValuesOfTheSameSecretAreTaken) {
    const Store same = view(&ours);
    std::string large(GCOLL_STORE_VALUE_MAX - kMoreBytes, 'x');
    for (const std::string &value : {std::string(), std::string("v"), std::string("\0\n:", 3), large}) {
        ASSERT_EQ(set(own.get(), "a/b", value), GCOLL_OK) << gcoll_last_error();
        std::string room(large.size(), '\0');
        size_t bytes = 0;
        ASSERT_EQ(gcoll_store_get(same.get(), "a/b", room.data(), room.size(), &bytes), GCOLL_OK)
            << gcoll_last_error();
        EXPECT_EQ(room.substr(0, bytes), value);
        ASSERT_EQ(gcoll_store_get_wait(same.get(), "a/b", room.data(), room.size(), &bytes, 1000), GCOLL_OK);
        EXPECT_EQ(room.substr(0, bytes), value);
    }
    EXPECT_EQ(set(own.get(), "a/b", large + "x"), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("65459 bytes; at most 65458")) << gcoll_last_error();
    ASSERT_EQ(gcoll_store_set_new(own.get(), "new", "v", 1), GCOLL_OK);
    EXPECT_EQ(gcoll_store_set_new(same.get(), "new", "w", 1), GCOLL_ERR_STATE);
    EXPECT_EQ(get(same.get(), "new"), "v");
    char room[2];
    size_t bytes = 0;
    ASSERT_EQ(set(own.get(), "long", "123"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_get(own.get(), "long", room, sizeof room, &bytes), GCOLL_ERR_INVALID);
}

// By Python's hmac: the label with its end, the key with its end, the value.
TEST_F(Signed, TheSignatureIsTheOneOfTheDescription) {
    ASSERT_EQ(set(own.get(), "a/b", "value"), GCOLL_OK);
    EXPECT_EQ(get(base.get(), "a/b"), "gcoll-signed:"
                                      "a1ed5182fc726822c54d50939f0adb07f2baf256a0b90a254d6cb283bbbccc40"
                                      ":value");
}

TEST_F(Signed, WhoHasAnotherSecretOrNoneIsTold) {
    ASSERT_EQ(set(own.get(), "k", "v"), GCOLL_OK);
    EXPECT_EQ(refused(other, "k"), GCOLL_ERR_PROTOCOL);
    EXPECT_TRUE(last_error_has("key 'k' is signed with another secret")) << gcoll_last_error();
    EXPECT_EQ(refused(none, "k"), GCOLL_ERR_PROTOCOL);
    EXPECT_TRUE(last_error_has("this rank has none (options.secret)")) << gcoll_last_error();
    ASSERT_EQ(set(none.get(), "k", "v"), GCOLL_OK);
    EXPECT_EQ(refused(own, "k"), GCOLL_ERR_PROTOCOL);
    EXPECT_TRUE(last_error_has("key 'k' is not signed")) << gcoll_last_error();
    EXPECT_EQ(get(base.get(), "k"), "v") << "as it is";
    EXPECT_EQ(get(none.get(), "k"), "v");
}

TEST_F(Signed, NoChangedOrMovedValueIsTaken) {
    ASSERT_EQ(set(own.get(), "a/first", "value"), GCOLL_OK);
    const std::string good = get(base.get(), "a/first");
    for (size_t bit = 0; bit < 8 * good.size(); bit++) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
        ASSERT_EQ(set(base.get(), "a/first", bad), GCOLL_OK);
        ASSERT_EQ(refused(own, "a/first"), GCOLL_ERR_PROTOCOL) << bit;
    }
    for (size_t bytes = 0; bytes < good.size(); bytes++) {
        ASSERT_EQ(set(base.get(), "a/first", good.substr(0, bytes)), GCOLL_OK);
        ASSERT_EQ(refused(own, "a/first"), GCOLL_ERR_PROTOCOL) << bytes;
    }
    for (const char *key : {"a/firs", "a/firstv", "b/first", "a/second"}) {
        ASSERT_EQ(set(base.get(), key, good), GCOLL_OK);
        ASSERT_EQ(refused(own, key), GCOLL_ERR_PROTOCOL) << key;
    }
    ASSERT_EQ(set(base.get(), "a/first", good), GCOLL_OK);
    EXPECT_EQ(get(own.get(), "a/first"), "value");
}

TEST_F(Signed, CountersWaitsAndLimitsAreTheBases) {
    int64_t sum = 0;
    EXPECT_EQ(gcoll_store_add(own.get(), "n", 3, &sum), GCOLL_OK);
    EXPECT_EQ(gcoll_store_add(base.get(), "n", 4, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 7);
    EXPECT_EQ(gcoll_store_wait(own.get(), "k", 0), GCOLL_ERR_TIMEOUT);
    ASSERT_EQ(set(own.get(), "k", "v"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_wait(own.get(), "k", 0), GCOLL_OK);
    EXPECT_EQ(gcoll_store_keep(own.get(), "k", 100000), GCOLL_OK);
    EXPECT_EQ(gcoll_store_set_timeout(own.get(), 5), GCOLL_OK);
    EXPECT_EQ(gcoll_store_remove(own.get(), "k"), GCOLL_OK);
    EXPECT_EQ(get(base.get(), "k"), "<not found>");
    EXPECT_EQ(get(own.get(), "k"), "<not found>");
    EXPECT_EQ(gcoll_store_lacks(own.get()), 0u);
}

} // namespace
