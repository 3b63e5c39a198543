#include "simulator/locality.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/splitmix.hpp"

namespace oomb::simulator {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kMostDrawsPerPage = 32;  // then the latest pages not yet named fill the list
constexpr std::string_view kFormat = "oomb-locality";

// In (0, 1).
double uniform(std::uint64_t bits) {
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

class ModelledLists : public issue::PageListSource {
  public:
    ModelledLists(const Locality& locality, const ListedRun& run)
        : locality_(locality), run_(run), popularity_(run.layers), named_(run.pages(), 0) {
        for (std::int64_t distance = 1; distance <= run.pages(); ++distance) {
            nearness_.push_back(std::pow(static_cast<double>(distance), -locality_.recency));
        }
    }

    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket /*stored*/) override {
        std::vector<std::int32_t> lists;
        lists.reserve(count * run_.top_k);
        for (std::int64_t page = first; page < first + count; ++page) {
            append_list(layer, page, lists);
        }
        return lists;
    }

  private:
    const std::vector<double>& popularity_of(std::int64_t layer) {
        std::vector<double>& popularity = popularity_.at(layer);
        if (popularity.empty()) {
            const std::uint64_t key = random_bits(stream_key(kSeed, "popularity"), layer);
            for (std::int64_t page = 0; page < run_.pages(); ++page) {
                popularity.push_back(std::pow(uniform(random_bits(key, page)), -locality_.zipf));
            }
        }
        return popularity;
    }

    // sums_[j]: weights of the pages before page j.
    void weigh(std::int64_t layer, std::int64_t history) {
        if (weighed_ == std::pair{layer, history}) {
            return;
        }
        weighed_ = {layer, history};
        const std::vector<double>& popularity = popularity_of(layer);
        sums_.assign(1, 0.0);
        for (std::int64_t page = 0; page < history; ++page) {
            sums_.push_back(sums_.back() + popularity[page] * nearness_[history - page - 1]);
        }
    }

    void append_list(std::int64_t layer, std::int64_t query_page, std::vector<std::int32_t>& lists) {
        const std::uint64_t key =
            random_bits(random_bits(stream_key(kSeed, "page lists"), layer), static_cast<std::uint64_t>(query_page));
        std::uint64_t draws = 0;
        const std::int64_t history = run_.history_of(query_page);
        const std::int64_t sink =
            std::min(run_.top_k, static_cast<std::int64_t>(locality_.sink + uniform(random_bits(key, draws++))));
        const auto begin = static_cast<std::ptrdiff_t>(lists.size());
        for (std::int64_t page = 0; page < sink; ++page) {
            lists.push_back(static_cast<std::int32_t>(page));
        }
        ++stamp_;
        weigh(layer, history);
        draw(sink, history, run_.top_k - sink, key, draws, lists);
        std::sort(lists.begin() + begin, lists.end());
    }

    // `count` different pages of [first, end), by weight.
    void draw(std::int64_t first, std::int64_t end, std::int64_t count, std::uint64_t key, std::uint64_t counter,
              std::vector<std::int32_t>& lists) {
        const auto from = sums_.begin() + first, to = sums_.begin() + end;
        const auto add = [&](std::int64_t page) {
            named_[page] = stamp_;
            lists.push_back(static_cast<std::int32_t>(page));
            --count;
        };
        for (std::int64_t left = count * kMostDrawsPerPage; left > 0 && count > 0; --left) {
            const double at = *from + (*to - *from) * uniform(random_bits(key, counter++));
            const std::int64_t page =
                std::clamp(std::upper_bound(from, to, at) - sums_.begin() - 1, static_cast<std::ptrdiff_t>(first),
                           static_cast<std::ptrdiff_t>(end - 1));
            if (named_[page] != stamp_) {
                add(page);
            }
        }
        for (std::int64_t page = end - 1; count > 0; --page) {
            if (named_[page] != stamp_) {
                add(page);
            }
        }
    }

    Locality locality_;
    ListedRun run_;
    std::vector<double> nearness_;                 // by distance - 1
    std::vector<std::vector<double>> popularity_;  // by layer, made when it is asked for
    std::vector<double> sums_;
    std::pair<std::int64_t, std::int64_t> weighed_{-1, -1};  // layer and history that the sums are of
    std::vector<std::uint64_t> named_;                       // by page: the stamp of the last list that drew it
    std::uint64_t stamp_ = 0;
};

Locality parse_numbers(const std::string& text) {
    double values[3] = {};
    const double most[3] = {kMostSink, kMostExponent, kMostExponent};
    const char *at = text.data(), *const end = at + text.size();
    for (int i = 0; i < 3; ++i) {
        const auto [next, error] = std::from_chars(at, end, values[i]);
        const bool ends = i == 2 ? next == end : next != end && *next == ',';
        if (error != std::errc{} || !ends || !(values[i] >= 0 && values[i] <= most[i])) {
            fail<UsageError>(
                "--locality: found \"{}\", allowed are a file of oomb-plan locality or sink,recency,zipf: pages from 0 "
                "to "
                "{}, exponents from 0 to {}, as 0.5,1.2,0.9",
                text, kMostSink, kMostExponent);
        }
        at = next + 1;
    }
    return {values[0], values[1], values[2], "as given"};
}

}  // namespace

Locality default_locality() {
    return {0.516, 1.768, 1.361, "fitted on SmolLM2-135M, docs/measurements/locality-smollm2.md"};
}

Locality read_locality(const std::string& text) {
    if (text.find(',') != std::string::npos && !std::filesystem::exists(text)) {
        return parse_numbers(text);
    }
    const Json json = read_json_file(text);
    const JsonNode root(json, text);
    if (root.as_object().at("format").as_string() != kFormat) {
        root.at("format").refuse(fmt::format("\"{}\"", kFormat));
    }
    root.at("version").as_integer(1, 1);
    return {root.at("sink").as_number(0, kMostSink), root.at("recency").as_number(0, kMostExponent),
            root.at("zipf").as_number(0, kMostExponent), root.at("source").as_string()};
}

nlohmann::ordered_json locality_json(const Locality& locality) {
    return {{"format", kFormat},           {"version", 1},          {"sink", locality.sink},
            {"recency", locality.recency}, {"zipf", locality.zipf}, {"source", locality.source}};
}

std::string to_text(const Locality& locality) {
    return fmt::format("sink {:.4g}, recency {:.4g}, zipf {:.4g}", locality.sink, locality.recency, locality.zipf);
}

std::unique_ptr<issue::PageListSource> modelled_lists(const Locality& locality, const ListedRun& run) {
    return std::make_unique<ModelledLists>(locality, run);
}

}  // namespace oomb::simulator
