#include "profiler/analysis/sums.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace oomb::profiler {

std::string demangled(std::string_view name) {
    const std::string text(name);
    int status = -1;
    const std::unique_ptr<char, decltype(&std::free)> plain(
        abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
    return text.starts_with("_Z") && status == 0 && plain != nullptr ? plain.get() : text;
}

std::vector<NameSum> sums_by_kernel(const Profile& profile) {
    std::unordered_map<StringId, NameSum> sums;
    for (const Kernel& kernel : profile.kernels) {
        const std::int64_t time = kernel.end_ns - kernel.begin_ns;
        NameSum& sum = sums.try_emplace(kernel.name, NameSum{.name = {}, .least_ns = time}).first->second;
        sum.count += 1;
        sum.total_ns = add_clamped(sum.total_ns, time);
        sum.least_ns = std::min(sum.least_ns, time);
        sum.most_ns = std::max(sum.most_ns, time);
    }
    std::vector<NameSum> list;
    for (auto& [id, sum] : sums) {
        const std::string_view name = profile.text(id);
        sum.name = name.empty() ? "(name not in the file)" : demangled(name);
        list.push_back(std::move(sum));
    }
    std::sort(list.begin(), list.end(), [](const NameSum& a, const NameSum& b) {
        return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
    });
    return list;
}

OperationSum& OperationSum::operator+=(const OperationSum& other) {
    kernels += other.kernels;
    kernel_ns = add_clamped(kernel_ns, other.kernel_ns);
    copies += other.copies;
    copy_ns = add_clamped(copy_ns, other.copy_ns);
    copy_bytes = add_clamped(copy_bytes, other.copy_bytes);
    return *this;
}

namespace {

class Summer {
  public:
    explicit Summer(const Profile& profile) : profile_(profile) {}

    void add(std::uint32_t correlation, const OperationSum& work) {
        const std::optional<schedule::OperationId> id = profile_.operation_of(correlation);
        if (!id) {
            sums_.unmarked += work;
            return;
        }
        worked_.insert(correlation);
        sums_.marked += work;
        sums_.by_kind[id->kind] += work;
        sums_.by_phase[id->phase] += work;
        if (id->phase != schedule::Phase::kOptimizer) {
            sums_.by_layer[id->layer] += work;
            sums_.by_chunk[id->chunk][id->phase] += work;
        }
    }

    OperationSums finish() {
        sums_.marks_without_work = std::ssize(profile_.marks) - std::ssize(worked_);
        return std::move(sums_);
    }

  private:
    const Profile& profile_;
    OperationSums sums_;
    std::unordered_set<std::uint32_t> worked_;
};

}  // namespace

std::optional<OperationSums> sums_by_operation(const Profile& profile) {
    if (profile.marks.empty()) {
        return std::nullopt;
    }
    Summer summer(profile);
    for (const Kernel& kernel : profile.kernels) {
        summer.add(kernel.correlation, {.kernels = 1, .kernel_ns = kernel.end_ns - kernel.begin_ns});
    }
    for (const Memset& memset : profile.memsets) {
        summer.add(memset.correlation, {.kernels = 1, .kernel_ns = memset.end_ns - memset.begin_ns});
    }
    for (const Copy& copy : profile.copies) {
        summer.add(copy.correlation, {.copies = 1, .copy_ns = copy.end_ns - copy.begin_ns, .copy_bytes = copy.bytes});
    }
    return summer.finish();
}

}  // namespace oomb::profiler
