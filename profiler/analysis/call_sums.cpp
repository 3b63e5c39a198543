#include "profiler/analysis/call_sums.hpp"

#include <algorithm>
#include <map>

namespace oomb::profiler {

std::string_view call_name(std::string_view name) {
    constexpr std::size_t kLeastDigits = 4;  // of a version; cuMemAlloc_v2 is a name of its own
    const std::size_t version = name.rfind("_v");
    const bool is_version = version != std::string_view::npos && name.size() - version - 2 >= kLeastDigits &&
                            name.find_first_not_of("0123456789", version + 2) == std::string_view::npos;
    return is_version ? name.substr(0, version) : name;
}

std::vector<NameSum> sums_by_call(const Profile& profile) {
    std::map<std::string_view, NameSum> sums;
    for (const ApiCall& call : profile.calls) {
        const std::int64_t time = call.end_ns - call.begin_ns;
        const std::string_view name = call_name(profile.text(call.name));
        NameSum& sum = sums.try_emplace(name, NameSum{.name = std::string(name), .least_ns = time}).first->second;
        sum.count += 1;
        sum.total_ns = add_clamped(sum.total_ns, time);
        sum.least_ns = std::min(sum.least_ns, time);
        sum.most_ns = std::max(sum.most_ns, time);
    }
    std::vector<NameSum> list;
    for (auto& [name, sum] : sums) {
        list.push_back(std::move(sum));
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const NameSum& a, const NameSum& b) { return a.total_ns > b.total_ns; });
    return list;
}

double CounterSum::bytes_per_second() const {
    return sampled_ns > 0 ? 1e9 * static_cast<double>(bytes) / static_cast<double>(sampled_ns) : 0.0;
}

std::vector<CounterSum> sums_by_counter(const Profile& profile) {
    std::map<std::pair<std::uint32_t, std::string_view>, CounterSum> sums;
    for (const Counter& sample : profile.counters) {
        const std::string_view name = profile.text(sample.name);
        const std::int64_t time = sample.end_ns - sample.begin_ns;
        CounterSum& sum =
            sums.try_emplace({sample.device, name}, CounterSum{.device = sample.device, .name = std::string(name)})
                .first->second;
        sum.samples += 1;
        sum.bytes = add_clamped(sum.bytes, sample.value);
        sum.sampled_ns = add_clamped(sum.sampled_ns, time);
        if (time > 0) {
            sum.most_per_second =
                std::max(sum.most_per_second, 1e9 * static_cast<double>(sample.value) / static_cast<double>(time));
        }
    }
    std::vector<CounterSum> list;
    for (auto& [key, sum] : sums) {
        list.push_back(std::move(sum));
    }
    return list;
}

std::string_view counter_title(std::string_view name) {
    constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
        {"pcie__read_bytes.sum", "PCIe, host to device"},
        {"pcie__write_bytes.sum", "PCIe, device to host"},
        {"dram__bytes_read.sum", "GPU memory, read"},
        {"dram__bytes_write.sum", "GPU memory, written"}};
    for (const auto& [metric, title] : kTitles) {
        if (metric == name) {
            return title;
        }
    }
    return name;
}

}  // namespace oomb::profiler
