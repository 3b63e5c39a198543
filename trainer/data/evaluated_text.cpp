#include "trainer/data/evaluated_text.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::trainer {

EvaluatedText EvaluatedText::in_sequences(std::shared_ptr<const TokenSource> source, std::int64_t context_tokens,
                                          std::int64_t most) {
    EvaluatedText text(std::move(source));
    const std::int64_t tokens = text.source_->tokens(), count = (tokens - 1) / context_tokens;
    if (count == 0) {
        fail<FileError>(
            "{}: holds {} tokens, a sequence of context {} needs {} (one more for the last target); give more data or "
            "a shorter --context",
            text.source_->name(), tokens, context_tokens, context_tokens + 1);
    }
    for (std::int64_t i = 0; i < count; ++i) {
        text.ranges_.push_back({i * context_tokens, context_tokens});
    }
    text.keep_first(most, "sequences of --context tokens");
    const std::int64_t read = text.size() * context_tokens;
    text.text_ = fmt::format("{}: {} tokens, {} sequences of {}, {} tokens at the end are not read",
                             text.source_->name(), format_count(tokens), format_count(text.size()),
                             format_count(context_tokens), format_count(tokens - 1 - read));
    return text;
}

EvaluatedText EvaluatedText::in_documents(std::shared_ptr<const TokenSource> source,
                                          const std::optional<TokenSidecar>& sidecar, std::int64_t context_tokens,
                                          std::int64_t most) {
    EvaluatedText text(std::move(source));
    if (!sidecar || sidecar->document_offsets.size() < 2) {
        fail<FileError>(
            "{}: --by-document needs to know where documents begin, and {}; tokenise the text with tools/tokenize.py, "
            "or leave --by-document out",
            text.source_->name(), sidecar ? "its sidecar only counts them" : "there is no sidecar beside it");
    }
    const std::vector<std::int64_t>& offsets = sidecar->document_offsets;
    std::int64_t cut = 0;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        const std::int64_t tokens = offsets[i + 1] - offsets[i] - 1;
        if (tokens > 0) {
            text.ranges_.push_back({offsets[i], std::min(tokens, context_tokens)});
        }
    }
    if (text.ranges_.empty()) {
        fail<FileError>("{}: none of its {} documents has two tokens, so none has a target; give other data",
                        text.source_->name(), offsets.size() - 1);
    }
    const auto single = static_cast<std::int64_t>(offsets.size()) - 1 - text.size();
    text.keep_first(most, "documents of at least two tokens");
    for (const Range& range : text.ranges_) {
        const auto next = std::upper_bound(offsets.begin(), offsets.end(), range.offset);
        cut += *next - range.offset - 1 > context_tokens ? 1 : 0;
    }
    text.text_ = fmt::format("{}: {} documents, {} of them longer than the context and cut, {} of one token left out",
                             text.source_->name(), format_count(text.size()), format_count(cut), format_count(single));
    return text;
}

void EvaluatedText::keep_first(std::int64_t most, std::string_view what) {
    if (most > size()) {
        fail<UsageError>("--sequences: found {}, {} has {} {}; give at most that, or leave it out", most,
                         source_->name(), size(), what);
    }
    if (most > 0) {
        ranges_.resize(static_cast<std::size_t>(most));
    }
}

Sequence EvaluatedText::read(std::int64_t index, std::int64_t vocabulary) const {
    const Range& range = ranges_.at(static_cast<std::size_t>(index));
    Sequence sequence;
    sequence.offset_tokens = range.offset;
    sequence.tokens.resize(static_cast<std::size_t>(range.tokens + 1));
    source_->read(range.offset, sequence.tokens);
    check_token_ids(*source_, sequence, vocabulary);
    return sequence;
}

}  // namespace oomb::trainer
