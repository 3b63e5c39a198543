#include "trainer/weights/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "runtime/core/error.hpp"
#include "tests/weights/files.hpp"

namespace oomb::trainer {
namespace {

// Opens a file with this content and gives the message of the refusal.
std::string refusal(const std::string& content) {
    const TemporaryFolder folder;
    write_file(folder / "x.safetensors", content);
    const std::string message = message_of<FileError>([&] { SafetensorsFile::open(folder / "x.safetensors"); });
    CHECK(mentions(message, {"x.safetensors"}));
    return message;
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
    return refusal(safetensors(header, std::string(data_bytes, 'd')));
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST_CASE("an honest file gives names, types, shapes and bytes") {
    const TemporaryFolder folder;
    const std::string header =
        R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"__metadata__":{"format":"pt"},)"
        R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
        R"("empty":{"dtype":"F16","shape":[3,0],"data_offsets":[12,12]},)"
        R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[12,20]}}   )";
    write_file(folder / "x", safetensors(header, "aaaabbbbbbbbssssssss"));
    const SafetensorsFile file = SafetensorsFile::open(folder / "x");
    REQUIRE(file.tensors().size() == 4);
    CHECK(file.tensors()[0].name == "a");
    const TensorInfo* b = file.find("b");
    REQUIRE(b != nullptr);
    CHECK(b->dtype == DType::kF32);
    CHECK(b->shape == std::vector<std::int64_t>{2});
    const auto bytes = file.bytes(*b);
    CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == "bbbbbbbb");
    CHECK(file.find("scalar")->elements == 1);
    CHECK_FALSE(file.find("scalar")->dtype.has_value());
    CHECK(file.find("scalar")->dtype_name == "I64");
    CHECK(file.bytes(*file.find("empty")).empty());
    CHECK(file.find("c") == nullptr);
}

TEST_CASE("files that are missing, no files, or too short are refused") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(SafetensorsFile::open(folder / "absent"), FileError);
    CHECK_THROWS_AS(SafetensorsFile::open(folder.path()), FileError);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK_THROWS_AS(SafetensorsFile::open(folder / "pipe"), FileError);
    CHECK(mentions(refusal(""), {"0 bytes"}));
    CHECK(mentions(refusal("1234567"), {"7 bytes"}));
}

TEST_CASE("a header length beyond the file or beyond the limit is refused") {
    const std::string honest = safetensors("{\"a\":" + tensor("F32", "[1]", "[0,4]") + "}", "dddd");
    CHECK(mentions(refusal(honest.substr(0, 30)), {"header length", "truncated"}));
    CHECK(mentions(refusal(bytes_of_values<std::uint64_t>({100'000'001}) + "{}"), {"100000001", "100000000"}));
    CHECK(mentions(refusal(bytes_of_values<std::uint64_t>({~std::uint64_t{0}}) + "{}"), {"18446744073709551615"}));
}

TEST_CASE("headers that are no JSON object are refused") {
    CHECK(mentions(refusal("", 0), {"JSON"}));
    CHECK(mentions(refusal("{\"a\":", 0), {"JSON"}));
    CHECK(mentions(refusal("[1,2]", 0), {"object"}));
    CHECK(mentions(refusal("{\"\xff\":1}", 0), {"JSON"}));
    CHECK(mentions(refusal(std::string(100'000, '['), 0), {"nested"}));
}

TEST_CASE("duplicate names and wrong fields are refused") {
    const std::string a = tensor("F32", "[1]", "[0,4]");
    CHECK(mentions(refusal("{\"a\":" + a + ",\"a\":" + a + "}", 4), {"\"a\"", "twice"}));
    CHECK(mentions(refusal("{\"a\":3}", 0), {"a", "object"}));
    CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), {"\"a\"", "data_offsets"}));
    CHECK(mentions(refusal(R"({"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4), {"twice"}));
    CHECK(mentions(refusal("{\"a\":" + tensor("F33", "[1]", "[0,4]") + "}", 4), {"\"a\"", "F33"}));
    CHECK(mentions(refusal(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4), {"dtype", "string"}));
    for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "1", "[18446744073709551615]", "null"}) {
        CAPTURE(shape);
        CHECK(mentions(refusal("{\"a\":" + tensor("F32", shape, "[0,4]") + "}", 4), {"shape"}));
    }
    CHECK(mentions(refusal(R"({"__metadata__":{"format":1}})", 0), {"__metadata__", "string"}));
    CHECK(mentions(refusal(R"({"__metadata__":[]})", 0), {"__metadata__"}));
}

TEST_CASE("ranges must match the shape, lie in the file and cover it once") {
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return "{\"a\":" + tensor(dtype, shape, offsets) + "}";
    };
    CHECK(mentions(refusal(one("F32", "[2]", "[0,4]"), 4), {"\"a\"", "[2]", "4 bytes"}));
    CHECK(mentions(refusal(one("F16", "[1]", "[0,4]"), 4), {"F16"}));
    CHECK(mentions(refusal(one("F4", "[3]", "[0,1]"), 1), {"F4"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[4,0]"), 4), {"begin <= end"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[0]"), 4), {"data_offsets"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[0,4,8]"), 4), {"data_offsets"}));
    CHECK(mentions(refusal(one("F32", "[2]", "[0,8]"), 4), {"beyond", "4 data bytes"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[0,9223372036854775807]"), 4), {"beyond"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[1,5]"), 5), {"gap"}));
    CHECK(mentions(refusal(one("F32", "[1]", "[0,4]"), 5), {"5 data bytes", "take 4"}));
    CHECK(mentions(refusal("{}", 1), {"1 data bytes"}));
    // 2^32 x 2^32 elements are 0 modulo 2^64; 2^61 floats are 0 bits modulo 2^64.
    CHECK(mentions(refusal(one("F32", "[4294967296,4294967296]", "[0,0]"), 0), {"2^63"}));
    CHECK(mentions(refusal(one("F64", "[2305843009213693952]", "[0,0]"), 0), {"does not take"}));
    const std::string b = ",\"b\":" + tensor("F32", "[1]", "[2,6]");
    CHECK(mentions(refusal("{\"a\":" + tensor("F32", "[1]", "[0,4]") + b + "}", 6), {"\"b\"", "overlap"}));
    const std::string twin = ",\"b\":" + tensor("F32", "[1]", "[0,4]");
    CHECK(mentions(refusal("{\"a\":" + tensor("F32", "[1]", "[0,4]") + twin + "}", 4), {"overlap"}));
}

}  // namespace oomb::trainer
