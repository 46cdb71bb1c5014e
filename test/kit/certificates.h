// test/kit/certificates.h - authorities and certificates for tests, made by the program openssl.
#ifndef GCOLL_TEST_CERTIFICATES_H
#define GCOLL_TEST_CERTIFICATES_H

#include <cstdlib>
#include <string>

namespace gcoll_test {

inline bool shell(const std::string &command) {
    return system((command + " >/dev/null 2>&1").c_str()) == 0;
}

inline bool has_openssl() {
    return shell("command -v openssl");
}

// An authority whose files lie in a folder: the certificate and key of `name` are name.pem and name.key.
class Authority {
  public:
    Authority(const std::string &folder, const std::string &own) : folder_(folder + "/"), own_(own) {
        is_made_ = shell("openssl req -x509 " + key_ + " -keyout " + key(own) + " -out " + file(own) +
                         " -subj /CN=" + own + " -days 2");
    }
    // A certificate for DNS names: "DNS:a,DNS:b". With chain, by an authority between the two, whose
    // certificate follows in the file. days -1: it has expired.
    bool issue(const std::string &name, const std::string &names, int days = 2, bool chain = false) const {
        std::string by = own_;
        if (chain) {
            by = name + "-between";
            if (!sign(by, own_, "basicConstraints=critical,CA:true", 2))
                return false;
        }
        return is_made_ && sign(name, by, "subjectAltName=" + names, days) &&
               (!chain || shell("(cat " + file(by) + " >>" + file(name) + ")"));
    }
    std::string file(const std::string &name) const { return folder_ + name + ".pem"; }
    std::string key(const std::string &name) const { return folder_ + name + ".key"; }
    std::string file() const { return file(own_); }

  private:
    bool sign(const std::string &name, const std::string &by, const std::string &extension, int days) const {
        const std::string request = folder_ + name + ".csr";
        return shell("openssl req -new " + key_ + " -keyout " + key(name) + " -out " + request +
                     " -subj /CN=" + name + " -addext " + extension) &&
               shell("openssl x509 -req -in " + request + " -CA " + file(by) + " -CAkey " + key(by) +
                     " -CAcreateserial -copy_extensions copy -days " + std::to_string(days) + " -out " +
                     file(name));
    }

    const std::string key_ = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::string folder_, own_;
    bool is_made_ = false;
};

} // namespace gcoll_test

#endif
