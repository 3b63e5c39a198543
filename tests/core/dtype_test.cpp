#include "runtime/core/dtype.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/core/error.hpp"
#include "tests/core/messages.hpp"

namespace oomb {

TEST_CASE("each element type keeps its name and size") {
    const std::pair<std::string_view, std::int64_t> types[] = {{"fp64", 8}, {"fp32", 4}, {"bf16", 2}, {"fp16", 2}};
    for (const auto& [name, bytes] : types) {
        CHECK(name_of(parse_dtype(name)) == name);
        CHECK(bytes_of(parse_dtype(name)) == bytes);
    }
}

TEST_CASE("an unknown element type names the allowed ones") {
    test::check_contains(test::message_of<UsageError>([] { parse_dtype("int8"); }),
                         {"\"int8\"", "fp64, fp32, bf16, fp16"});
    CHECK_THROWS_AS(parse_dtype(""), UsageError);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN") {
    const auto round_trip = [](float value) { return static_cast<float>(BFloat16(value)); };
    CHECK(round_trip(1.0F) == 1.0F);
    CHECK(round_trip(1.0F + 0x1p-8F) == 1.0F);                       // a tie goes to the even neighbour
    CHECK(round_trip(1.0F + 0x1p-7F + 0x1p-8F) == 1.0F + 0x1p-6F);   // as here, upwards
    CHECK(round_trip(1.0F + 0x1p-8F + 0x1p-20F) == 1.0F + 0x1p-7F);  // above the tie
    CHECK(round_trip(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(round_trip(std::numeric_limits<float>::quiet_NaN())));
    CHECK(std::isnan(round_trip(std::bit_cast<float>(0x7f800001U))));  // a NaN whose upper half alone is infinity
}

}  // namespace oomb
