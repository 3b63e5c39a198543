#include "trainer/weights/hf_folder_writer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/error.hpp"
#include "tests/weights/small_model.hpp"
#include "trainer/weights/check_weights.hpp"
#include "trainer/weights/convert.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"vocab_size": 10, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
                                    "torch_dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]})";

void write_source(const TemporaryFolder& folder, const RawTensors& tensors) {
    fs::create_directory(folder / "model");
    write_file(folder / "model/config.json", kConfig);
    write_file(folder / "model/model.safetensors", safetensors_of(tensors));
    write_file(folder / "model/tokenizer.model", std::string("\0\1\2", 3));
    write_file(folder / "blob", "{\"tokens\": []}");
    fs::create_symlink("../blob", folder / "model/tokenizer.json");
    write_file(folder / "model/chat_template.jinja", "{{ x }}");
    write_file(folder / "model/README.md", "not copied");
}

HfFolderRequest request_of(const TemporaryFolder& folder, const ModelShape& shape, const WeightFolder* weights) {
    HfFolderRequest request;
    request.source = folder / "model";
    request.out = folder / "out";
    request.tensors = stored_tensors(shape, weights);
    return request;
}

// Reads every tensor to floats, as training does, and writes it from them.
void save_through_floats(const HfFolderWriter& writer, const WeightFolder& weights) {
    std::vector<float> values;
    writer.write(
        [&](const StoredTensor& tensor) {
            const TensorInfo& info = *weights.find(tensor.name);
            values.resize(static_cast<std::size_t>(info.elements));
            convert(weights.bytes(tensor.name), *info.dtype, std::span(values));
            return TensorValues(std::span<const float>(values));
        },
        "{\"steps\": 3}");
}

void check_same_tensors(const WeightFolder& weights, const RawTensors& expected) {
    CHECK(weights.list().size() == expected.size());
    for (const auto& [name, tensor] : expected) {
        CAPTURE(name);
        REQUIRE(weights.find(name) != nullptr);
        CHECK(weights.find(name)->dtype_name == tensor.dtype);
        CHECK(weights.find(name)->shape == tensor.shape);
        const auto bytes = weights.bytes(name);
        CHECK(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == tensor.bytes);
    }
}

}  // namespace

TEST_CASE("unchanged values come back bit for bit, in one file and in shards") {
    for (const auto& [dtype, element_bytes] : {std::pair("BF16", 2U), std::pair("F16", 2U), std::pair("F32", 4U)}) {
        for (const std::int64_t max_shard_bytes : {kMaxShardBytes, std::int64_t{100}}) {
            CAPTURE(dtype);
            CAPTURE(max_shard_bytes);
            const TemporaryFolder folder;
            RawTensors tensors = raw_tensors(small_shape(), dtype, element_bytes);
            tensors["model.norm.weight"] = {"F32", {4}, bytes_of_values<float>({1.0F, 1e-40F, -0.0F, 3e38F})};
            write_source(folder, tensors);
            const WeightFolder weights = WeightFolder::open(folder / "model");
            HfFolderRequest request = request_of(folder, small_shape(), &weights);
            request.max_shard_bytes = max_shard_bytes;
            save_through_floats(HfFolderWriter(request), weights);
            const WeightFolder saved = WeightFolder::open(folder / "out");
            CHECK(check_weights(saved, small_shape()).empty());
            check_same_tensors(saved, tensors);
            CHECK(fs::exists(folder / "out/model.safetensors") == (max_shard_bytes == kMaxShardBytes));
        }
    }
}

TEST_CASE("the folder holds the changed config, the tokenizer, the run and nothing else") {
    const TemporaryFolder folder;
    write_source(folder, raw_tensors(small_shape(), "BF16", 2));
    const WeightFolder weights = WeightFolder::open(folder / "model");
    HfFolderRequest request = request_of(folder, small_shape(), &weights);
    request.out = (folder / "out").string() + "/";
    request.config_changes_json = R"({"max_position_embeddings": 4096})";
    const HfFolderWriter writer(request);
    save_through_floats(writer, weights);
    CHECK(read_file(folder / "out/config.json") ==
          "{\n  \"vocab_size\": 10,\n  \"max_position_embeddings\": 4096,\n  \"rms_norm_eps\": 1e-06,\n"
          "  \"torch_dtype\": \"bfloat16\",\n  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ]\n}\n");
    CHECK(read_file(folder / "out/tokenizer.json") == "{\"tokens\": []}");
    CHECK_FALSE(fs::is_symlink(folder / "out/tokenizer.json"));
    CHECK(read_file(folder / "out/tokenizer.model") == std::string("\0\1\2", 3));
    CHECK(read_file(folder / "out/run.json") == "{\"steps\": 3}");
    std::int64_t bytes = -12;  // run.json is not in the plan
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder / "out")) {
        bytes += static_cast<std::int64_t>(entry.file_size());
        ++files;
    }
    CHECK(files == 6);  // config, run, weights, tokenizer.json, tokenizer.model, chat template
    CHECK(bytes == writer.total_bytes());
}

TEST_CASE("float32 weights may be stored rounded, and the config says so") {
    const TemporaryFolder folder;
    RawTensors tensors = raw_tensors(small_shape(), "F32", 4);
    tensors["model.norm.weight"].bytes = bytes_of_values<float>({1.00390625F, 1.01171875F, -2.0F, 1.0F + 0x1p-20F});
    write_source(folder, tensors);
    for (const auto& [key, config] : {std::pair("dtype", R"({"hidden_size": 4})"),
                                      std::pair("torch_dtype", R"({"torch_dtype": "float32", "hidden_size": 4})")}) {
        CAPTURE(key);
        write_file(folder / "model/config.json", config);
        const WeightFolder weights = WeightFolder::open(folder / "model");
        HfFolderRequest request = request_of(folder, small_shape(), &weights);
        request.tensors = stored_tensors(small_shape(), &weights, DType::kBF16);
        request.config_dtype = DType::kBF16;
        save_through_floats(HfFolderWriter(request), weights);
        const WeightFolder saved = WeightFolder::open(folder / "out");
        std::vector<float> norm(4);
        convert(saved.bytes("model.norm.weight"), DType::kBF16, std::span(norm));
        // bfloat16 has steps of 2^-7 there: 1 + 2^-8 is a tie with the even 1, 1 + 3 * 2^-8 one with 1 + 2^-6.
        CHECK(norm == std::vector<float>{1.0F, 1.015625F, -2.0F, 1.0F});
        const auto written = nlohmann::json::parse(read_file(folder / "out/config.json"));
        CHECK(written[key] == "bfloat16");
        CHECK(written.size() == 2);
        fs::remove_all(folder / "out");
    }
}

TEST_CASE("a config alone is enough for random weights") {
    const TemporaryFolder folder;
    write_file(folder / "config-of-a-model.json", kConfig);
    HfFolderRequest request = request_of(folder, small_shape(true), nullptr);
    request.source = folder / "config-of-a-model.json";
    std::vector<double> values;
    const auto parameters = parameters_of(small_shape(true));
    HfFolderWriter(request).write(
        [&](const StoredTensor& tensor) {
            const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                                [&](const ParameterInfo& p) { return p.name == tensor.name; });
            values.resize(static_cast<std::size_t>(parameter->elements));
            random_values(*parameter, 1, std::span(values));
            return TensorValues(std::span<const double>(values));
        },
        "{}");
    CHECK(check_weights(WeightFolder::open(folder / "out"), small_shape(true)).empty());
    CHECK(fs::exists(folder / "out/config.json"));
}

TEST_CASE("tensors larger than a block are written whole") {
    const TemporaryFolder folder;
    write_file(folder / "config.json", kConfig);
    HfFolderRequest request;
    request.source = folder / "config.json";
    request.out = folder / "out";
    const std::int64_t elements = (std::int64_t{1} << 20) + 3;
    request.tensors = {{"a", {elements}, DType::kBF16}};
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 251);
    }
    HfFolderWriter(request).write([&](const StoredTensor&) { return TensorValues(std::span<const float>(values)); },
                                  "{}");
    const WeightFolder saved = WeightFolder::open(folder / "out");
    std::vector<float> back(values.size());
    convert(saved.bytes("a"), DType::kBF16, std::span(back));
    CHECK(back == values);
}

}  // namespace oomb::trainer
