#pragma once
// Profiles made up for tests.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "runtime/trace/names.hpp"

namespace oomb::profiler {

using Random = std::mt19937_64;

inline std::int64_t random_below(Random& random, std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
}

// Any value that the field may have, small ones and the extremes often.
template <class T>
T random_value(Random& random) {
    if constexpr (std::is_enum_v<T>) {
        return static_cast<T>(random_below(random, kValues<T>));
    } else {
        const auto most = std::is_signed_v<T> ? static_cast<std::uint64_t>(kMostNumber)
                                              : static_cast<std::uint64_t>(std::numeric_limits<T>::max());
        switch (random_below(random, 4)) {
            case 0:
                return 0;
            case 1:
                return static_cast<T>(most);
            case 2:
                return static_cast<T>(
                    std::min<std::uint64_t>(most, static_cast<std::uint64_t>(random_below(random, 1000))));
            default:
                return static_cast<T>(std::uniform_int_distribution<std::uint64_t>(0, most)(random));
        }
    }
}

template <std::size_t... I>
Record random_record_of(Random& random, std::index_sequence<I...>) {
    Record record;
    const auto kind = static_cast<std::size_t>(random_below(random, sizeof...(I))) + 1;  // not a string
    (void)((kind == I + 1 && (record = std::variant_alternative_t<I + 1, Record>{}, true)) || ...);
    std::visit(
        [&](auto& r) {
            for_each_field(fields(r), [&](auto& field) {
                field = random_value<std::remove_reference_t<decltype(field)>>(random);
            });
        },
        record);
    return record;
}
inline Record random_record(Random& random) {
    return random_record_of(random, std::make_index_sequence<std::variant_size_v<Record> - 1>());
}

// A path that no file has, and that none has any more when the test is over.
class TemporaryPath {
  public:
    TemporaryPath() {
        static int made = 0;
        path_ = std::filesystem::temp_directory_path() /
                ("oomb-profile-test-" + std::to_string(getpid()) + "-" + std::to_string(made++));
    }
    ~TemporaryPath() { std::filesystem::remove(path_); }
    const std::filesystem::path& get() const { return path_; }

    std::string bytes() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  private:
    std::filesystem::path path_;
};

inline SessionHeader test_header() {
    return {.program = "test 1",
            .command = "a program",
            .process = 7,
            .begin_ns = 1'000,
            .cupti_version = 130001,
            .driver_version = 13000,
            .operation_kinds = trace::kind_names()};
}

inline Profile profile_of(const std::vector<Record>& records) {
    ProfileBuilder builder;
    for (const Record& record : records) {
        builder.add(record);
    }
    return builder.finish(test_header(), {.whole = true});
}

}  // namespace oomb::profiler
