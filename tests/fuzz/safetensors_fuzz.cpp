// Opening, and looking at every tensor's bytes.
#include "tests/fuzz/target.hpp"
#include "trainer/weights/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts([&] {
        const auto file = oomb::trainer::SafetensorsFile::open(oomb::fuzz::as_file(data, size, ".safetensors"));
        unsigned sum = 0;
        for (const auto& tensor : file.tensors()) {
            for (const std::byte byte : file.bytes(tensor)) {
                sum += static_cast<unsigned>(byte);
            }
        }
        static volatile unsigned seen;
        seen = sum;
    });
}
