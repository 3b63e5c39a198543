#include "trainer/data/sequence_reader.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/data/token_files.hpp"

namespace oomb::trainer {
namespace {

constexpr std::int64_t kVocabulary = 1000;

}  // namespace

TEST_CASE("targets are the inputs shifted by one, and sequences share the token between them") {
    const TemporaryFolder folder;
    SequenceReader reader(counting_source(folder, 12), 4, kVocabulary);
    CHECK(reader.sequences_per_epoch() == 2);
    CHECK(reader.dropped_tokens() == 3);
    CHECK(mentions(reader.describe(), {"12 tokens", "2 sequences of 4", "dropped 3 tokens"}));
    const Sequence first = reader.next();
    CHECK(first.tokens == range(0, 5));
    CHECK(std::vector<std::int32_t>(first.inputs().begin(), first.inputs().end()) == range(0, 4));
    CHECK(std::vector<std::int32_t>(first.targets().begin(), first.targets().end()) == range(1, 5));
    const Sequence second = reader.next();
    CHECK(second.tokens == range(4, 9));
    CHECK(second.offset_tokens == 4);
}

TEST_CASE("after the last whole sequence reading starts again") {
    const TemporaryFolder folder;
    for (const std::size_t tokens : {9U, 10U, 12U}) {
        CAPTURE(tokens);
        SequenceReader reader(counting_source(folder, tokens), 4, kVocabulary);
        reader.next();
        CHECK(reader.next().epoch == 0);
        CHECK(reader.cursor() == DataCursor{1, 0, static_cast<std::int64_t>(tokens)});
        const Sequence again = reader.next();
        CHECK(again.tokens == range(0, 5));
        CHECK(again.epoch == 1);
    }
    SequenceReader exact(counting_source(folder, 5), 4, kVocabulary);
    CHECK(exact.dropped_tokens() == 0);
    CHECK(exact.next().tokens == exact.next().tokens);
}

TEST_CASE("a run that is restored, and restored again, reads what an unbroken one reads") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 23);
    SequenceReader unbroken(source, 4, kVocabulary);
    std::vector<std::vector<std::int32_t>> expected;
    for (int i = 0; i < 12; ++i) {
        expected.push_back(unbroken.next().tokens);
    }
    DataCursor cursor = SequenceReader(source, 4, kVocabulary).cursor();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        SequenceReader resumed(source, 4, kVocabulary);
        resumed.restore(cursor);
        Sequence sequence;
        resumed.next(sequence);
        CHECK(sequence.tokens == expected[i]);
        cursor = resumed.cursor();
    }
}

TEST_CASE("a cursor serves another context, from the same place or from the start when too little is left") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 12);
    SequenceReader reader(source, 4, kVocabulary);
    reader.next();
    SequenceReader longer(source, 7, kVocabulary);
    longer.restore(reader.cursor());
    CHECK(longer.next().tokens == range(4, 12));
    SequenceReader longest(source, 8, kVocabulary);
    longest.restore(reader.cursor());
    CHECK(longest.cursor().epoch == 1);
    CHECK(longest.next().tokens == range(0, 9));
}

TEST_CASE("cursors of other data or outside it are refused") {
    const TemporaryFolder folder;
    SequenceReader reader(counting_source(folder, 12), 4, kVocabulary);
    CHECK(mentions(message_of<FileError>([&] { reader.restore({0, 0, 13}); }), {"12 tokens", "13"}));
    for (const DataCursor& cursor : {DataCursor{0, -1, 12}, DataCursor{0, 12, 12}, DataCursor{-1, 0, 12}}) {
        CHECK_THROWS_AS(reader.restore(cursor), FileError);
    }
    CHECK(reader.next().tokens == range(0, 5));
}

TEST_CASE("too short data names what there is and what is needed") {
    const TemporaryFolder folder;
    const auto source = counting_source(folder, 8);
    CHECK(mentions(message_of<FileError>([&] { SequenceReader(source, 8, kVocabulary); }), {"8 tokens", "needs 9"}));
    CHECK_NOTHROW(SequenceReader(source, 7, kVocabulary));
    CHECK_THROWS_AS(SequenceReader(source, 0, kVocabulary), InternalError);
}

TEST_CASE("the first token beyond the vocabulary is named with its offset") {
    const TemporaryFolder folder;
    write_file(folder / "x.npy", npy_of<std::uint32_t>({1, 2, 3, 4, 99, 100, 101, 102, 5}));
    SequenceReader reader(open_token_source(folder / "x.npy"), 4, 100);
    CHECK(reader.next().tokens.back() == 99);
    CHECK(mentions(message_of<FileError>([&] { reader.next(); }), {"x.npy", "token 100", "offset 5", "ids 0 to 99"}));
}

TEST_CASE("bytes need a vocabulary of 256") {
    const TemporaryFolder folder;
    write_file(folder / "text", "some text");
    const std::shared_ptr<const TokenSource> source = open_token_source(folder / "text");
    CHECK(mentions(message_of<FileError>([&] { SequenceReader(source, 4, 255); }), {"256", "255"}));
    CHECK(SequenceReader(source, 4, 256).next().tokens.front() == 's');
}

}  // namespace oomb::trainer
