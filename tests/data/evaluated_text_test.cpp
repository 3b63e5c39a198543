#include "trainer/data/evaluated_text.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/data/token_files.hpp"

namespace oomb::trainer {
namespace {

std::optional<TokenSidecar> documents(std::vector<std::int64_t> offsets) {
    TokenSidecar sidecar;
    sidecar.documents = std::ssize(offsets) - 1;
    sidecar.document_offsets = std::move(offsets);
    return sidecar;
}

}  // namespace

TEST_CASE("sequences are those that training reads, each once") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 23);
    SequenceReader trained(source, 5, 1000);
    const EvaluatedText text = EvaluatedText::in_sequences(source, 5, 0);
    REQUIRE(text.size() == trained.sequences_per_epoch());
    for (std::int64_t i = 0; i < text.size(); ++i) {
        const Sequence expected = trained.next(), found = text.read(i, 1000);
        CHECK(found.tokens == expected.tokens);
        CHECK(found.offset_tokens == expected.offset_tokens);
    }
    CHECK(mentions(text.describe(), {"23 tokens", "4 sequences of 5", "2 tokens at the end"}));
    CHECK(EvaluatedText::in_sequences(source, 5, 3).size() == 3);
    CHECK(EvaluatedText::in_sequences(source, 22, 0).size() == 1);
    CHECK(mentions(message_of<UsageError>([&] { EvaluatedText::in_sequences(source, 5, 5); }),
                   {"--sequences", "found 5", "has 4"}));
    CHECK(mentions(message_of<FileError>([&] { EvaluatedText::in_sequences(source, 23, 0); }),
                   {"holds 23 tokens", "needs 24", "shorter --context"}));
}

TEST_CASE("documents begin where the sidecar says, reach as far as the context, and need two tokens") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 20);
    const EvaluatedText text = EvaluatedText::in_documents(source, documents({0, 3, 4, 12, 14, 20}), 5, 0);
    REQUIRE(text.size() == 4);
    CHECK(text.read(0, 1000).tokens == range(0, 3));
    CHECK(text.read(1, 1000).tokens == range(4, 10));  // seven targets, five fit
    CHECK(text.read(2, 1000).tokens == range(12, 14));
    CHECK(text.read(3, 1000).tokens == range(14, 20));  // just fits
    CHECK(text.tokens(3) == 5);
    CHECK(mentions(text.describe(), {"4 documents", "1 of them longer", "1 of one token"}));
    CHECK(EvaluatedText::in_documents(source, documents({0, 3, 4, 12, 14, 20}), 5, 2).size() == 2);
}

TEST_CASE("documents that cannot be told apart, or have nothing to predict") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 3);
    const auto refusal = [&](const std::optional<TokenSidecar>& sidecar) {
        return message_of<FileError>([&] { EvaluatedText::in_documents(source, sidecar, 5, 0); });
    };
    CHECK(mentions(refusal(std::nullopt), {"--by-document", "no sidecar", "tools/tokenize.py"}));
    CHECK(mentions(refusal(documents({})), {"only counts them"}));
    CHECK(mentions(refusal(documents({0, 1, 2, 3})), {"none of its 3 documents has two tokens"}));
}

TEST_CASE("a token that the model does not have is named with its place") {
    const TemporaryFolder folder;
    const EvaluatedText text = EvaluatedText::in_sequences(counting_source(folder, 23), 5, 0);
    CHECK_NOTHROW(text.read(0, 6));
    CHECK(mentions(message_of<FileError>([&] { text.read(1, 8); }), {"token 8 at offset 8", "vocabulary has 8"}));
}

}  // namespace oomb::trainer
