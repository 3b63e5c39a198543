#include "trainer/weights/weight_folder.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "runtime/core/error.hpp"
#include "tests/weights/files.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

// A shard with one float tensor of one element.
std::string shard(const std::string& name, float value) {
    return safetensors("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                       bytes_of_values<float>({value}));
}

float value_of(const WeightFolder& weights, const std::string& name) {
    float value = 0;
    const auto bytes = weights.bytes(name);
    REQUIRE(bytes.size() == sizeof(value));
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
}

void write_index(const TemporaryFolder& folder, const std::string& weight_map) {
    write_file(folder / kIndexFileName, R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
}

std::string refusal(const TemporaryFolder& folder) {
    return message_of<FileError>([&] { WeightFolder::open(folder.path()); });
}

}  // namespace

TEST_CASE("a single file, also through the links of a cache") {
    const TemporaryFolder folder;
    write_file(folder / "blob", shard("a", 3.0F));
    fs::create_directories(folder / "snapshot");
    fs::create_symlink("../blob", folder / "snapshot/model.safetensors");
    const WeightFolder weights = WeightFolder::open(folder / "snapshot");
    CHECK(value_of(weights, "a") == 3.0F);
    CHECK(weights.find("b") == nullptr);
    CHECK(mentions(message_of<FileError>([&] { static_cast<void>(weights.bytes("b")); }), {"\"b\""}));
}

TEST_CASE("shards are found through the index, by name") {
    const TemporaryFolder folder;
    write_file(folder / "one", shard("b", 1.0F));
    write_file(folder / "two", shard("a", 2.0F));
    write_index(folder, R"({"a":"two","b":"one"})");
    WeightFolder opened = WeightFolder::open(folder.path());
    const WeightFolder weights = std::move(opened);
    CHECK(value_of(weights, "a") == 2.0F);
    CHECK(value_of(weights, "b") == 1.0F);
    const auto list = weights.list();
    REQUIRE(list.size() == 2);
    CHECK(list[0]->name == "a");
    CHECK(list[1]->name == "b");
}

TEST_CASE("a folder without weights says what is expected") {
    const TemporaryFolder folder;
    CHECK(mentions(refusal(folder), {"model.safetensors", "index.json"}));
    const fs::path absent = folder / "absent";
    CHECK(mentions(message_of<FileError>([&] { WeightFolder::open(absent); }), {"absent", "not a folder"}));
    fs::create_symlink("gone", folder / "model.safetensors");
    CHECK_THROWS_AS(WeightFolder::open(folder.path()), FileError);
}

TEST_CASE("shards that are absent, lack a tensor or share one are refused by name") {
    const TemporaryFolder folder;
    write_file(folder / "one", shard("a", 1.0F));
    write_index(folder, R"({"a":"one","b":"two"})");
    CHECK(mentions(refusal(folder), {"\"two\"", "missing"}));

    write_file(folder / "two", shard("c", 2.0F));
    CHECK(mentions(refusal(folder), {"\"b\"", "\"two\"", "lacks"}));

    write_file(folder / "two", shard("a", 2.0F));
    CHECK(mentions(refusal(folder), {"\"a\"", "also in one"}));

    write_file(folder / "two", shard("b", 2.0F));
    write_index(folder, R"({"a":"two","b":"one"})");
    CHECK(mentions(refusal(folder), {"lacks"}));
}

TEST_CASE("a damaged index is refused") {
    const TemporaryFolder folder;
    write_file(folder / "one", shard("a", 1.0F));
    for (const char* weight_map : {"{}", "[]", "7", R"({"a":1})", R"({"a":"one","a":"one"})", R"({"a":"one")"}) {
        CAPTURE(weight_map);
        write_index(folder, weight_map);
        CHECK(mentions(refusal(folder), {"index.json"}));
    }
    write_file(folder / kIndexFileName, "{}");
    CHECK(mentions(refusal(folder), {"weight_map"}));
}

TEST_CASE("an index does not lead out of its folder") {
    const TemporaryFolder folder;
    fs::create_directories(folder / "inner");
    write_file(folder / "one", shard("a", 1.0F));
    for (const char* name : {"../one", "/etc/passwd", "..", ".", "", "x/../../one", "one\\u0000"}) {
        CAPTURE(name);
        write_file(folder / "inner/model.safetensors.index.json",
                   std::string(R"({"weight_map":{"a":")") + name + "\"}}");
        CHECK(mentions(message_of<FileError>([&] { WeightFolder::open(folder / "inner"); }), {"plain file name"}));
    }
}

}  // namespace oomb::trainer
