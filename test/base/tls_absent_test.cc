// test/base/tls_absent_test.cc - a library that was built without OpenSSL: it says so when it is asked for.
#include "gcoll/gcoll.h"
#include "test/kit/harness.h"

namespace {

void expect_absent(gcoll_status status) {
    EXPECT_EQ(status, GCOLL_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(gcoll_last_error())
                  .find("TLS: this build has none (CMake option GCOLL_OPENSSL); it needs the headers of "
                        "OpenSSL 3 (libssl-dev, or "
                        "openssl-devel of Fedora)"),
              std::string::npos)
        << gcoll_last_error();
}

TEST(TlsAbsent, IsSaidOfEncryption) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.secret = "a secret of 30 bytes, of no use";
    options.secret_bytes = 30;
    options.encryption = "on";
    options.transport = "tcp";
    gcoll_context *context = nullptr;
    expect_absent(gcoll_context_create(&options, &context));
    options.encryption = "auth"; // needs none
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_OK) << gcoll_last_error();
    gcoll_context_destroy(context);
}

TEST(TlsAbsent, IsSaidOfRedis) {
    gcoll_store *store = nullptr;
    expect_absent(gcoll_store_open("rediss://127.0.0.1:1", 1000, &store));
}

} // namespace
