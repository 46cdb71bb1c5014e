// test/base/sha256_test.cc - SHA-256 and HMAC by the vectors of their standards, and at every length around a
// block by what Python's hashlib and hmac give.
#include "test/kit/harness.h"

#include <string>
#include <vector>

extern "C" {
#include "gcoll/base/sha256.h"
}

namespace {

using Digest = std::vector<uint8_t>;

std::string hex(const Digest &digest) {
    std::string text;
    for (const uint8_t byte : digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

// Added in pieces of `piece` bytes.
Digest sha256(const std::string &data, size_t piece) {
    gcoll_sha256 hash;
    Digest digest(GCOLL_SHA256_BYTES);
    gcoll_sha256_begin(&hash);
    for (size_t at = 0; at < data.size(); at += piece)
        gcoll_sha256_add(&hash, data.data() + at, std::min(piece, data.size() - at));
    gcoll_sha256_end(&hash, digest.data());
    return digest;
}

Digest hmac(const std::string &key, const std::string &data) {
    gcoll_hmac mac;
    Digest digest(GCOLL_SHA256_BYTES);
    gcoll_hmac_begin(&mac, key.data(), key.size());
    gcoll_hmac_add(&mac, data.data(), data.size() / 2);
    gcoll_hmac_add(&mac, data.data() + data.size() / 2, data.size() - data.size() / 2);
    gcoll_hmac_end(&mac, digest.data());
    return digest;
}

// Byte i is i * factor + bytes.
std::string sequence(size_t bytes, int factor, size_t first) {
    std::string text;
    for (size_t i = 0; i < bytes; i++)
        text += static_cast<char>(i * static_cast<size_t>(factor) + first);
    return text;
}

// FIPS 180-4's examples, and a million times "a" (NIST's example values).
TEST(Sha256, GivesTheStandardsExamples) {
    EXPECT_EQ(hex(sha256("", 1)), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex(sha256("abc", 3)), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56)),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hex(sha256(std::string(1000000, 'a'), 997)),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The digest of all digests, by hashlib.
TEST(Sha256, IsRightAtEveryLengthInPiecesOfAnySize) {
    for (const size_t piece : {1, 7, 63, 64, 65, 300}) {
        std::string all;
        for (size_t bytes = 0; bytes < 300; bytes++) {
            const Digest digest = sha256(sequence(bytes, 7, bytes), piece);
            all.append(digest.begin(), digest.end());
        }
        EXPECT_EQ(hex(sha256(all, 4096)), "d5238871a46ac4a1a75ac3fb19d645b0b3b9e5f35f5f720e2b240d605c6b694e")
            << piece;
    }
}

// RFC 4231, test cases 1, 2, 6 and 7.
TEST(Hmac, GivesTheStandardsExamples) {
    EXPECT_EQ(hex(hmac(std::string(20, '\x0b'), "Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(hex(hmac("Jefe", "what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hex(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    EXPECT_EQ(hex(hmac(std::string(131, '\xaa'),
                       "This is a test using a larger than block-size key and a larger than block-size data. "
                       "The key needs to be hashed before being used by the HMAC algorithm.")),
              "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, IsRightForKeysOfEveryLength) {
    std::string all;
    for (size_t bytes = 0; bytes < 200; bytes++) {
        const Digest digest = hmac(sequence(bytes, 5, bytes), sequence(300 - bytes, 7, bytes));
        all.append(digest.begin(), digest.end());
    }
    EXPECT_EQ(hex(sha256(all, 4096)), "95a8dea962e703c5ff500aef45d381068a13414f7a3a4f6bf1bdf974e33a7bd3");
}

TEST(Secrets, AreTheSameOnlyIfEachByteIs) {
    const std::string secret = sequence(32, 3, 1);
    EXPECT_TRUE(gcoll_is_same_secret(secret.data(), secret.data(), secret.size()));
    EXPECT_TRUE(gcoll_is_same_secret(secret.data(), "", 0));
    for (size_t i = 0; i < secret.size(); i++) {
        for (int bit = 0; bit < 8; bit++) {
            std::string other = secret;
            other[i] = static_cast<char>(other[i] ^ 1 << bit);
            EXPECT_FALSE(gcoll_is_same_secret(secret.data(), other.data(), secret.size()));
        }
    }
}

TEST(Secrets, AreForgotten) {
    std::string secret = sequence(100, 3, 1);
    gcoll_forget_secret(&secret[10], 80);
    EXPECT_EQ(secret.substr(10, 80), std::string(80, '\0'));
    EXPECT_EQ(secret.substr(0, 10) + secret.substr(90),
              sequence(100, 3, 1).substr(0, 10) + sequence(100, 3, 1).substr(90));
}

} // namespace
