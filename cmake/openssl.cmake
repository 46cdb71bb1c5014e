# Whether connections can be encrypted: gcoll_has_openssl. Headers are all that it takes: the libraries are opened when asked for.
include(CheckCSourceCompiles)
set(missing "")
if(NOT GCOLL_OPENSSL STREQUAL "OFF")
  check_c_source_compiles("
    #include <openssl/ssl.h>
    #if OPENSSL_VERSION_MAJOR < 3
    #error older
    #endif
    int main(void) { return 0; }" GCOLL_HAVE_OPENSSL_3_H)
  if(NOT GCOLL_HAVE_OPENSSL_3_H)
    set(missing "openssl/ssl.h of OpenSSL 3 not found: libssl-dev, or openssl-devel of Fedora")
  endif()
endif()
gcoll_optional_decide(OPENSSL "${missing}")
