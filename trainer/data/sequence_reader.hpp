#pragma once
// Cutting a stream of tokens into training sequences.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/token_source.hpp"

namespace oomb::trainer {

// Where the next sequence begins; saved with a checkpoint.
struct DataCursor {
    std::int64_t epoch = 0;          // passes over the data that are complete
    std::int64_t offset_tokens = 0;  // within the source
    std::int64_t source_tokens = 0;  // tokens of the source it belongs to

    bool operator==(const DataCursor&) const = default;
};

// `tokens` are context + 1 consecutive tokens; position i is trained to predict position i + 1.
struct Sequence {
    std::vector<std::int32_t> tokens;
    std::int64_t epoch = 0;
    std::int64_t offset_tokens = 0;  // of the first token

    std::span<const std::int32_t> inputs() const { return std::span(tokens).first(tokens.size() - 1); }
    std::span<const std::int32_t> targets() const { return std::span(tokens).subspan(1); }
};

// Throw FileError: a token id that the model does not have, with its offset in the source; bytes as tokens for a
// vocabulary that has fewer.
void check_token_ids(const TokenSource& source, const Sequence& sequence, std::int64_t vocabulary);
void check_vocabulary(const TokenSource& source, std::int64_t vocabulary);

// Sequences follow one another without overlap of their inputs: each begins `context_tokens` after the one before, and
// its last target is the first input of the next. After the last whole sequence reading goes on at the start of the
// source; the tokens that are left over are dropped, and their number is known. Seeking is O(1).
class SequenceReader {
  public:
    // Throws FileError when the source is too short for one sequence or needs a larger vocabulary than the model has.
    SequenceReader(std::shared_ptr<const TokenSource> source, std::int64_t context_tokens, std::int64_t vocabulary);

    const TokenSource& source() const { return *source_; }
    std::int64_t context_tokens() const { return context_tokens_; }
    std::int64_t sequences_per_epoch() const { return sequences_per_epoch_; }
    std::int64_t dropped_tokens() const;  // at the end of each epoch, never read as a target
    std::string describe() const;         // one line for the user, with the dropped tokens

    // The next sequence; the cursor moves on. Throws FileError for a token id that the model does not have, with its
    // offset in the source.
    Sequence next();
    void next(Sequence& sequence);  // reuses its memory

    DataCursor cursor() const { return cursor_; }
    // Goes on where a cursor of the same source stood, also with another context. Throws FileError when the source has
    // another number of tokens now or the cursor does not lie within it.
    void restore(const DataCursor& cursor);

  private:
    void wrap_if_exhausted();

    std::shared_ptr<const TokenSource> source_;
    std::int64_t context_tokens_;
    std::int64_t vocabulary_;
    std::int64_t sequences_per_epoch_;
    DataCursor cursor_;
};

}  // namespace oomb::trainer
