#pragma once
// What an evaluation reads of a token file: sequences one after the other as in training, or document by document.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/sequence_reader.hpp"
#include "trainer/data/sidecar.hpp"

namespace oomb::trainer {

class EvaluatedText {
  public:
    // Whole sequences of `context_tokens`, the first `most` of them (0: all), none twice; the same ones that training
    // reads. Throws FileError for a source that is too short for one, UsageError for more than there are.
    static EvaluatedText in_sequences(std::shared_ptr<const TokenSource> source, std::int64_t context_tokens,
                                      std::int64_t most);
    // The documents of the sidecar, each from its first token on, as far as `context_tokens` reach; those of a single
    // token, which nothing follows, are left out. `most` as above. Throws FileError where the sidecar does not say
    // where documents begin, or none has two tokens.
    static EvaluatedText in_documents(std::shared_ptr<const TokenSource> source,
                                      const std::optional<TokenSidecar>& sidecar, std::int64_t context_tokens,
                                      std::int64_t most);

    std::int64_t size() const { return static_cast<std::int64_t>(ranges_.size()); }
    // Input tokens of sequence `index`; its targets go one token further.
    std::int64_t tokens(std::int64_t index) const { return ranges_[index].tokens; }
    // Throws FileError for a token id that the model does not have.
    Sequence read(std::int64_t index, std::int64_t vocabulary) const;
    // One line for the user, with what is not read.
    const std::string& describe() const { return text_; }
    const TokenSource& source() const { return *source_; }

  private:
    struct Range {
        std::int64_t offset = 0, tokens = 0;
    };

    explicit EvaluatedText(std::shared_ptr<const TokenSource> source) : source_(std::move(source)) {}
    void keep_first(std::int64_t most, std::string_view what);

    std::shared_ptr<const TokenSource> source_;
    std::vector<Range> ranges_;
    std::string text_;
};

}  // namespace oomb::trainer
