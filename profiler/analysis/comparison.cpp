#include "profiler/analysis/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

constexpr auto kCupti = static_cast<std::size_t>(Source::kCupti);

struct Joined {
    schedule::OperationId id;
    BySource<std::optional<Amount>> of = {};
};

// Frames become free: nothing moves.
bool without_device_work(const schedule::OperationId& id) {
    return id.kind == schedule::Kind::kRelease;
}

// In the order of the first source that has them.
std::vector<Joined> joined_by_id(const BySource<std::optional<StepTimes>>& steps) {
    std::vector<Joined> all;
    std::unordered_map<std::uint64_t, std::size_t> places;
    for (std::size_t source = 0; source < kSources; ++source) {
        if (!steps[source]) {
            continue;
        }
        for (const TimedOperation& operation : steps[source]->operations) {
            const auto [place, added] = places.try_emplace(pack(operation.id), all.size());
            if (added) {
                all.push_back({.id = operation.id});
            }
            all[place->second].of[source] = Amount{operation.ns, operation.bytes};
        }
    }
    return all;
}

class Comparer {
  public:
    explicit Comparer(const BySource<std::optional<StepTimes>>& steps) {
        for (std::size_t source = 0; source < kSources; ++source) {
            if (steps[source]) {
                found_.overlaps[source] = steps[source]->overlap;
            }
        }
    }

    void add(const Joined& operation) {
        if (found_.overlaps[kCupti] && without_device_work(operation.id)) {
            found_.without_device_work += 1;
            return;
        }
        ComparedSum times{.operations = 1};
        bool everywhere = true;
        for (std::size_t source = 0; source < kSources; ++source) {
            if (operation.of[source]) {
                times.of[source] = *operation.of[source];
            } else if (found_.overlaps[source]) {
                found_.missing[source][operation.id.kind] += 1;
                everywhere = false;
            }
        }
        if (!everywhere) {
            return;
        }
        found_.kinds[operation.id.kind] += times;
        found_.phases[operation.id.phase] += times;
        found_.total += times;
        found_.other_bytes += given_bytes_differ(times) ? 1 : 0;
        found_.differ.push_back({operation.id, times});
    }

    Comparison finish(std::size_t most) {
        std::stable_sort(found_.differ.begin(), found_.differ.end(),
                         [&](const auto& a, const auto& b) { return most_off_ns(a.times) > most_off_ns(b.times); });
        found_.differ.resize(std::min(most, found_.differ.size()));
        return std::move(found_);
    }

  private:
    bool given_bytes_differ(const ComparedSum& times) const {
        const std::int64_t last = times.of[static_cast<std::size_t>(found_.reference())].bytes;
        bool differ = false;
        for (std::size_t source = 0; source < kSources; ++source) {
            differ = differ || (found_.overlaps[source] && times.of[source].bytes != last);
        }
        return differ;
    }
    std::int64_t most_off_ns(const ComparedSum& times) const {
        const std::int64_t last = times.of[static_cast<std::size_t>(found_.reference())].ns;
        std::int64_t most = 0;
        for (std::size_t source = 0; source < kSources; ++source) {
            most = std::max(most, found_.overlaps[source] ? std::abs(times.of[source].ns - last) : 0);
        }
        return most;
    }

    Comparison found_;
};

std::vector<std::string> differing_keys(const Json& plan, const Json& other, const std::string& prefix) {
    std::vector<std::string> lines;
    for (const auto& [key, value] : plan.items()) {
        const auto found = other.find(key);
        if (found != other.end() && *found != value) {  // earlier programs wrote fewer keys
            lines.push_back(fmt::format("{}{}: {} and {}", prefix, key, quoted(value), quoted(*found)));
        }
    }
    return lines;
}

Json chosen(const Json& plan, std::initializer_list<const char*> keys) {
    Json part = Json::object();
    for (const char* key : keys) {
        if (plan.contains(key)) {
            part[key] = plan[key];
        }
    }
    return part;
}

}  // namespace

StepTimes times_of(const timeline::Timeline& step) {
    StepTimes times{.overlap = timeline::overlap_within(step, 0, step.end_ns())};
    for (const timeline::Lane& lane : step.lanes) {
        for (const timeline::Slice& slice : lane) {
            times.operations.push_back({slice.id, slice.end_ns - slice.begin_ns, slice.bytes});
        }
    }
    return times;
}

StepTimes times_of(const Profile& profile, const RecordedStep& step) {
    StepTimes times{.overlap = overlap_within(profile, step.span)};
    for (const OperationWork& work : step.operations) {
        times.operations.push_back({work.id, work.time.end - work.time.begin, work.bytes});
    }
    return times;
}

ComparedSum& ComparedSum::operator+=(const ComparedSum& other) {
    operations += other.operations;
    for (std::size_t source = 0; source < kSources; ++source) {
        of[source].ns = add_clamped(of[source].ns, other.of[source].ns);
        of[source].bytes = add_clamped(of[source].bytes, other.of[source].bytes);
    }
    return *this;
}

Source Comparison::reference() const {
    std::size_t last = 0;
    for (std::size_t source = 0; source < kSources; ++source) {
        last = overlaps[source] ? source : last;
    }
    return static_cast<Source>(last);
}

Comparison compare(const BySource<std::optional<StepTimes>>& steps, std::size_t most) {
    Comparer comparer(steps);
    for (const Joined& operation : joined_by_id(steps)) {
        comparer.add(operation);
    }
    return comparer.finish(most);
}

PlanDifference plan_difference(const Json& plan, const Json& other) {
    const auto part = [](const Json& whole, const char* key) { return whole.value(key, Json::object()); };
    PlanDifference difference{.model = differing_keys(part(plan, "model"), part(other, "model"), "model."),
                              .run = differing_keys(part(plan, "run"), part(other, "run"), "run.")};
    const auto decided = {"resident_pages", "keep", "held_chunks", "kept_pages", "optimizer_shards"};
    for (std::string& line : differing_keys(chosen(plan, decided), chosen(other, decided), "")) {
        difference.run.push_back(std::move(line));
    }
    return difference;
}

}  // namespace oomb::profiler
