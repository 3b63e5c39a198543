#include "simulator/lists/locality.hpp"

#include <algorithm>
#include <bit>
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
// Of lists that were drawn: fill, forward and backward ask for the same.
constexpr std::int64_t kMostKept_bytes = 64 << 20;
constexpr std::string_view kFormat = "oomb-locality";

// In (0, 1).
double uniform(std::uint64_t bits) {
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

// Draws without replacement, each in logarithmic time: a tree whose nodes are the sums of two.
class WeightedDraw {
  public:
    void assign(const std::vector<double>& weights) {
        leaves_ = std::bit_ceil(std::max<std::size_t>(1, weights.size()));
        sums_.assign(2 * leaves_, 0.0);
        std::copy(weights.begin(), weights.end(), sums_.begin() + static_cast<std::ptrdiff_t>(leaves_));
        for (std::size_t node = leaves_ - 1; node > 0; --node) {
            sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
        }
        all_ = sums_;
        taken_.clear();
    }

    // Takes the one at `share` of the weights that are left, in (0, 1); there is one.
    std::size_t take(double share) {
        double at = share * sums_[1];
        std::size_t node = 1;
        while (node < leaves_) {
            node *= 2;
            if (at >= sums_[node] && sums_[node + 1] > 0) {
                at -= sums_[node++];
            }
        }
        take_item(node - leaves_);
        return node - leaves_;
    }

    // Sums are made anew, never subtracted from: what is left once the heavy ones are gone is exact.
    void take_item(std::size_t item) {
        std::size_t node = item + leaves_;
        taken_.push_back(node);
        sums_[node] = 0.0;
        for (double sum = 0.0; node > 1; sums_[node] = sum) {
            sum += sums_[node ^ 1];
            node /= 2;
        }
    }

    // A sum that differs has a part that does, down to an item that was taken: above one that is right again all are,
    // or will be.
    void put_all_back() {
        for (std::size_t node : taken_) {
            for (; node > 0 && sums_[node] != all_[node]; node /= 2) {
                sums_[node] = all_[node];
            }
        }
        taken_.clear();
    }

  private:
    std::size_t leaves_ = 1;
    std::vector<double> sums_{0.0, 0.0}, all_{0.0, 0.0};  // of what is left, and with nothing taken
    std::vector<std::size_t> taken_;                      // leaves
};

class ModelledLists : public issue::PageListSource {
  public:
    ModelledLists(const Locality& locality, const ListedRun& run)
        : locality_(locality), run_(run), popularity_(run.layers) {
        for (std::int64_t distance = 1; distance <= run.pages(); ++distance) {
            nearness_.push_back(std::pow(static_cast<double>(distance), -locality_.recency));
        }
        const std::int64_t entries = run.layers * run.pages() * run.top_k;
        if (entries <= kMostKept_bytes / static_cast<std::int64_t>(sizeof(std::int32_t))) {
            kept_.assign(entries, -1);
        }
    }

    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket /*stored*/) override {
        std::vector<std::int32_t> lists;
        lists.reserve(count * run_.top_k);
        for (std::int64_t page = first; page < first + count; ++page) {
            const auto kept = kept_.begin() + (kept_.empty() ? 0 : (layer * run_.pages() + page) * run_.top_k);
            if (!kept_.empty() && *kept >= 0) {
                lists.insert(lists.end(), kept, kept + run_.top_k);
                continue;
            }
            append_list(layer, page, lists);
            if (!kept_.empty()) {
                std::copy(lists.end() - run_.top_k, lists.end(), kept);
            }
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

    void weigh(std::int64_t layer, std::int64_t history) {
        if (weighed_ == std::pair{layer, history}) {
            return;
        }
        weighed_ = {layer, history};
        const std::vector<double>& popularity = popularity_of(layer);
        weights_.clear();
        for (std::int64_t page = 0; page < history; ++page) {
            weights_.push_back(popularity[page] * nearness_[history - page - 1]);
        }
        draw_.assign(weights_);
    }

    void append_list(std::int64_t layer, std::int64_t query_page, std::vector<std::int32_t>& lists) {
        const std::uint64_t key =
            random_bits(random_bits(stream_key(kSeed, "page lists"), layer), static_cast<std::uint64_t>(query_page));
        std::uint64_t draws = 0;
        const std::int64_t sink =
            std::min(run_.top_k, static_cast<std::int64_t>(locality_.sink + uniform(random_bits(key, draws++))));
        const auto begin = static_cast<std::ptrdiff_t>(lists.size());
        weigh(layer, run_.history_of(query_page));
        for (std::int64_t page = 0; page < sink; ++page) {
            draw_.take_item(page);
            lists.push_back(static_cast<std::int32_t>(page));
        }
        for (std::int64_t i = sink; i < run_.top_k; ++i) {
            lists.push_back(static_cast<std::int32_t>(draw_.take(uniform(random_bits(key, draws++)))));
        }
        draw_.put_all_back();
        std::sort(lists.begin() + begin, lists.end());
    }

    Locality locality_;
    ListedRun run_;
    std::vector<double> nearness_;                 // by distance - 1
    std::vector<std::vector<double>> popularity_;  // by layer, made when it is asked for
    std::vector<std::int32_t> kept_;               // by layer and query page; its first entry negative: not drawn yet
    std::vector<double> weights_;
    WeightedDraw draw_;
    std::pair<std::int64_t, std::int64_t> weighed_{-1, -1};  // layer and history that the weights are of
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
    return {0.516, 1.955, 1.336, "fitted on SmolLM2-135M, docs/measurements/locality-smollm2.md"};
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
