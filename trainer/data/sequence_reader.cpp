#include "trainer/data/sequence_reader.hpp"

#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::trainer {
namespace {

std::int64_t whole_sequences(std::int64_t tokens, std::int64_t context_tokens) {
    require(context_tokens > 0, "context of {} tokens", context_tokens);
    return (tokens - 1) / context_tokens;
}

}  // namespace

void check_vocabulary(const TokenSource& source, std::int64_t vocabulary) {
    constexpr std::int64_t kBytes = 256;
    if (source.element_bytes() == 1 && vocabulary < kBytes) {
        fail<FileError>(
            "{}: byte-level text needs a vocabulary of {}, the model has {}; tokenise the text for this model",
            source.name(), kBytes, vocabulary);
    }
}

void check_token_ids(const TokenSource& source, const Sequence& sequence, std::int64_t vocabulary) {
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
        const std::int32_t token = sequence.tokens[i];
        if (token >= vocabulary) {
            fail<FileError>(
                "{}: token {} at offset {}, but the model's vocabulary has {} (ids 0 to {}); was it tokenised "
                "for another model?",
                source.name(), token, sequence.offset_tokens + static_cast<std::int64_t>(i), vocabulary,
                vocabulary - 1);
        }
    }
}

SequenceReader::SequenceReader(std::shared_ptr<const TokenSource> source, std::int64_t context_tokens,
                               std::int64_t vocabulary)
    : source_(std::move(source)),
      context_tokens_(context_tokens),
      vocabulary_(vocabulary),
      sequences_per_epoch_(whole_sequences(source_->tokens(), context_tokens)),
      cursor_{.source_tokens = source_->tokens()} {
    if (sequences_per_epoch_ == 0) {
        fail<FileError>(
            "{}: holds {} tokens, a sequence of context {} needs {} (one more for the last target); give "
            "more data or a shorter context",
            source_->name(), source_->tokens(), context_tokens_, context_tokens_ + 1);
    }
    check_vocabulary(*source_, vocabulary_);
}

std::int64_t SequenceReader::dropped_tokens() const {
    return source_->tokens() - 1 - sequences_per_epoch_ * context_tokens_;
}

std::string SequenceReader::describe() const {
    return fmt::format("{}: {} tokens, {} sequences of {} per epoch, dropped {} tokens at the end", source_->name(),
                       format_count(source_->tokens()), format_count(sequences_per_epoch_),
                       format_count(context_tokens_), format_count(dropped_tokens()));
}

Sequence SequenceReader::next() {
    Sequence sequence;
    next(sequence);
    return sequence;
}

void SequenceReader::next(Sequence& sequence) {
    sequence.tokens.resize(static_cast<std::size_t>(context_tokens_ + 1));
    sequence.epoch = cursor_.epoch;
    sequence.offset_tokens = cursor_.offset_tokens;
    source_->read(cursor_.offset_tokens, sequence.tokens);
    check_token_ids(*source_, sequence, vocabulary_);
    cursor_.offset_tokens += context_tokens_;
    wrap_if_exhausted();
}

// The last target needs one token more than the context.
void SequenceReader::wrap_if_exhausted() {
    if (cursor_.source_tokens - 1 - cursor_.offset_tokens < context_tokens_) {
        cursor_.offset_tokens = 0;
        ++cursor_.epoch;
    }
}

void SequenceReader::restore(const DataCursor& cursor) {
    if (cursor.source_tokens != source_->tokens()) {
        fail<FileError>("{}: holds {} tokens, but {} when the run was saved; continue with the same data",
                        source_->name(), source_->tokens(), cursor.source_tokens);
    }
    if (cursor.epoch < 0 || cursor.offset_tokens < 0 || cursor.offset_tokens >= source_->tokens()) {
        fail<FileError>("{}: the saved place (epoch {}, token {}) does not lie within its {} tokens", source_->name(),
                        cursor.epoch, cursor.offset_tokens, source_->tokens());
    }
    cursor_ = cursor;
    wrap_if_exhausted();
}

}  // namespace oomb::trainer
