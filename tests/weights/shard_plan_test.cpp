#include "trainer/weights/shard_plan.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/core/error.hpp"
#include "tests/weights/small_model.hpp"

namespace oomb::trainer {
namespace {

const std::vector<StoredTensor> kTensors{
    {"a", {10}, DType::kBF16}, {"b", {3}, DType::kF32}, {"c", {2, 50}, DType::kBF16}, {"d", {1}, DType::kF64}};

}  // namespace

TEST_CASE("one file when everything fits, wide types first") {
    const std::vector<Shard> shards = plan_shards(kTensors, 1000);
    REQUIRE(shards.size() == 1);
    CHECK(shards[0].file_name == "model.safetensors");
    CHECK(shards[0].data_bytes == 20 + 12 + 200 + 8);
    CHECK(shards[0].tensors[0].name == "d");
    CHECK(shards[0].tensors[1].name == "b");
    CHECK(shards[0].tensors[2].name == "a");
    CHECK(shards[0].header.size() % 8 == 0);
}

TEST_CASE("a shard ends before the limit is passed; a tensor above it has one of its own") {
    const std::vector<Shard> shards = plan_shards(kTensors, 32);
    REQUIRE(shards.size() == 3);
    CHECK(shards[0].data_bytes == 32);
    CHECK(shards[1].data_bytes == 200);
    CHECK(shards[2].data_bytes == 8);
    CHECK(shards[1].file_name == "model-00002-of-00003.safetensors");
    const auto index = nlohmann::json::parse(shard_index_text(shards));
    CHECK(index["metadata"]["total_size"] == 240);
    CHECK(index["weight_map"].size() == 4);
    CHECK(index["weight_map"]["c"] == "model-00002-of-00003.safetensors");
}

TEST_CASE("the reader accepts planned headers") {
    const TemporaryFolder folder;
    const Shard shard = plan_shards(kTensors, 1000)[0];
    write_file(folder / "x", shard.header + std::string(240, '\0'));
    CHECK(shard.file_bytes() == static_cast<std::int64_t>(std::filesystem::file_size(folder / "x")));
    const SafetensorsFile file = SafetensorsFile::open(folder / "x");
    CHECK(file.find("c")->shape == std::vector<std::int64_t>{2, 50});
    CHECK(file.find("c")->dtype == DType::kBF16);
}

TEST_CASE("stored types are those of the source, of the config, or forced") {
    RawTensors raw = raw_tensors(small_shape(), "BF16", 2);
    raw["model.norm.weight"] = {"F32", {4}, std::string(16, '\0')};
    const TemporaryFolder folder;
    write_file(folder / "model.safetensors", safetensors_of(raw));
    const WeightFolder weights = WeightFolder::open(folder.path());
    for (const StoredTensor& tensor : stored_tensors(small_shape(), &weights)) {
        CHECK(tensor.dtype == (tensor.name == "model.norm.weight" ? DType::kF32 : DType::kBF16));
    }
    ModelShape shape = small_shape();
    shape.stored_dtype = DType::kF16;
    CHECK(stored_tensors(shape, nullptr)[0].dtype == DType::kF16);
    CHECK(stored_tensors(shape, &weights, DType::kF64)[0].dtype == DType::kF64);
}

TEST_CASE("sizes past 2^63 are refused, not wrapped") {
    const std::int64_t large = std::int64_t{1} << 40;
    CHECK_THROWS_AS(plan_shards({{"a", {large, large}, DType::kF32}}, kMaxShardBytes), UnsupportedError);
}

}  // namespace oomb::trainer
