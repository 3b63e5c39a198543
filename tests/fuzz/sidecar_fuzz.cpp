// tokens.npy.json beside a token file of 100 tokens of 16 bits.
#include "tests/fuzz/target.hpp"
#include "trainer/data/sidecar.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::filesystem::path kTokens = [] {
        std::string file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                           "{'descr': '<u2', 'fortran_order': False, 'shape': (100,), }";
        file.resize(128, ' ');
        file.back() = '\n';
        file.resize(128 + 200, '\x01');
        return oomb::fuzz::as_file(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), ".npy");
    }();
    static const auto kSource = oomb::trainer::open_token_source(kTokens);
    return oomb::fuzz::refuses_or_accepts([&] {
        oomb::fuzz::as_file(data, size, ".npy.json");
        oomb::trainer::read_sidecar(kTokens, *kSource);
    });
}
