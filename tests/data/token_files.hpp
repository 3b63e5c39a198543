#pragma once
// .npy files for tests, honest or not.

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/weights/files.hpp"
#include "trainer/data/token_source.hpp"

namespace oomb::trainer {

// Signature, version, header length, header, data; the length is `header`'s own unless given.
inline std::string npy(int version, const std::string& header, const std::string& data, std::int64_t length = -1) {
    const auto stated = static_cast<std::uint32_t>(length < 0 ? static_cast<std::int64_t>(header.size()) : length);
    const std::string length_bytes = version == 1 ? bytes_of_values<std::uint16_t>({static_cast<std::uint16_t>(stated)})
                                                  : bytes_of_values<std::uint32_t>({stated});
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length_bytes + header + data;
}

inline std::string npy_header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
    return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}     \n", descr, order, shape);
}

template <class T>
std::string npy_of(const std::vector<T>& tokens) {
    const std::string header = npy_header(fmt::format("<u{}", sizeof(T)), fmt::format("({},)", tokens.size()));
    return npy(1, header, bytes_of_values(tokens));
}

// Token i is the number i, so every value says where it was read.
inline std::shared_ptr<const TokenSource> counting_source(const TemporaryFolder& folder, std::size_t tokens) {
    std::vector<std::uint16_t> values(tokens);
    std::iota(values.begin(), values.end(), std::uint16_t{0});
    write_file(folder / "x.npy", npy_of(values));
    return open_token_source(folder / "x.npy");
}

inline std::vector<std::int32_t> range(std::int32_t begin, std::int32_t end) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(end - begin));
    std::iota(values.begin(), values.end(), begin);
    return values;
}

}  // namespace oomb::trainer
