#include "trainer/weights/check_weights.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/weights/small_model.hpp"

namespace oomb::trainer {
namespace {

std::vector<std::string> check(const RawTensors& tensors, const ModelShape& shape) {
    const TemporaryFolder folder;
    write_file(folder / "model.safetensors", safetensors_of(tensors));
    return check_weights(WeightFolder::open(folder.path()), shape);
}

template <class E = FileError>
std::string refusal(const RawTensors& tensors, const ModelShape& shape) {
    return message_of<E>([&] { check(tensors, shape); });
}

}  // namespace

TEST_CASE("the weights of the shape pass, in every type that is computed with") {
    CHECK(check(raw_tensors(small_shape(), "BF16", 2), small_shape()).empty());
    CHECK(check(raw_tensors(small_shape(true), "F16", 2), small_shape(true)).empty());
    CHECK(check(raw_tensors(small_shape(), "F32", 4), small_shape()).empty());
    CHECK(check(raw_tensors(small_shape(), "F64", 8), small_shape()).empty());
}

TEST_CASE("missing and unexpected tensors are named together") {
    RawTensors tensors = raw_tensors(small_shape(), "F32", 4);
    tensors.erase("model.layers.1.mlp.up_proj.weight");
    tensors["model.layers.0.self_attn.q_proj.bias"] = {"F32", {4}, std::string(16, '\0')};
    CHECK(
        mentions(refusal(tensors, small_shape()), {"missing tensors 1 (\"model.layers.1.mlp.up_proj.weight\")",
                                                   "unexpected tensors 1 (\"model.layers.0.self_attn.q_proj.bias\")"}));
    CHECK(mentions(refusal({{"x", {"F32", {1}, "0000"}}}, small_shape()), {"missing tensors 21", "..."}));
}

TEST_CASE("wrong shapes and quantised types are refused by name") {
    RawTensors tensors = raw_tensors(small_shape(), "F32", 4);
    tensors["model.norm.weight"].shape = {2, 2};
    CHECK(mentions(refusal(tensors, small_shape()), {"model.norm.weight", "[2, 2]", "[4]"}));
    RawTensors quantised = raw_tensors(small_shape(), "F8_E4M3", 1);
    CHECK(mentions(refusal<UnsupportedError>(quantised, small_shape()), {"F8_E4M3", "quantised"}));
}

TEST_CASE("rotary frequencies are ignored") {
    RawTensors tensors = raw_tensors(small_shape(), "F32", 4);
    const std::string name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    tensors[name] = {"F32", {1}, "0000"};
    CHECK(check(tensors, small_shape()) == std::vector<std::string>{name});
}

TEST_CASE("a head beside tied embeddings must be the embedding") {
    RawTensors tensors = raw_tensors(small_shape(true), "BF16", 2);
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
    CHECK(check(tensors, small_shape(true)) == std::vector<std::string>{"lm_head.weight"});
    tensors["lm_head.weight"].bytes.back() = '\x7e';
    CHECK(mentions(refusal(tensors, small_shape(true)), {"lm_head.weight", "tie_word_embeddings"}));
    // Untied, the head must be there.
    CHECK(mentions(refusal(raw_tensors(small_shape(true), "BF16", 2), small_shape()), {"\"lm_head.weight\""}));
}

}  // namespace oomb::trainer
