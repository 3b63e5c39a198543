#include "trainer/checkpoint/checkpoint_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <regex>
#include <utility>

#include "runtime/core/checked.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "trainer/weights/check_weights.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kOptimizerFolder = "optimizer";
constexpr std::array<std::pair<Moment, std::string_view>, 2> kMoments{{{Moment::kM, "m."}, {Moment::kV, "v."}}};

fs::path step_path(const fs::path& folder, std::int64_t step) {
    return folder / fmt::format("{}{}", kPrefix, step);
}

// Of a folder with checkpoints; what is of no such name is not ours.
struct Entries {
    std::map<std::int64_t, fs::path> whole;  // "step-40" with a checkpoint.json in it, by step
    std::vector<fs::path> left_over;         // "step-40.partial-7" and "step-40.removed-7" of processes that are gone
};

Entries entries_of(const fs::path& folder) {
    static const std::regex kName(R"(step-([1-9][0-9]{0,17})(\.(partial|removed)-[0-9]+)?)");
    Entries entries;
    std::error_code error, ignored;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::smatch match;
        if (!std::regex_match(name, match, kName)) {
            continue;
        }
        if (match[2].matched) {
            entries.left_over.push_back(entry->path());
        } else if (fs::exists(entry->path() / kCheckpointFile, ignored)) {
            entries.whole[std::stoll(match[1])] = entry->path();
        }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        fail<FileError>("{}: cannot be read: {}", folder.string(), error.message());
    }
    return entries;
}

void remove_folder(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
        fail<FileError>("{}: cannot be removed: {}; remove it by hand", path.string(), error.message());
    }
}

// A crash on the way leaves nothing that looks like a checkpoint.
void remove_checkpoint(const fs::path& path) {
    const fs::path removed = fmt::format("{}.removed-{}", path.string(), ::getpid());
    rename_to_new(path, removed);
    remove_folder(removed);
}

// The type that Backend::weight() has.
DType held_type(const schedule::Plan& plan) {
    const bool has_master = schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run)).has_master();
    return has_master ? plan.run.accumulator : plan.run.compute;
}

HfFolderRequest request(const fs::path& folder, const fs::path& model, const schedule::Plan& plan, std::int64_t step) {
    HfFolderRequest request;
    request.source = model;
    request.out = step_path(folder, step);
    request.tensors = stored_tensors(plan.model, nullptr, held_type(plan));
    request.config_changes_json = config_for_context(plan.run.context_tokens, plan.model.max_positions);
    request.config_dtype = held_type(plan);
    return request;
}

std::vector<StoredTensor> moment_tensors(const schedule::Plan& plan) {
    std::vector<StoredTensor> tensors;
    for (const auto& [moment, prefix] : kMoments) {
        for (StoredTensor& tensor : stored_tensors(plan.model, nullptr, plan.run.accumulator)) {
            tensor.name = fmt::format("{}{}", prefix, tensor.name);
            tensors.push_back(std::move(tensor));
        }
    }
    return tensors;
}

// `disk` is a folder that is there. The next checkpoint is written before the last is removed.
void check_space(const fs::path& folder, const fs::path& disk, const schedule::Plan& plan, std::int64_t copies) {
    std::int64_t bytes = 0;  // of tensors: config and tokenizer are a few MB
    for (const auto& tensors : {stored_tensors(plan.model, nullptr, held_type(plan)), moment_tensors(plan)}) {
        for (const Shard& shard : plan_shards(tensors, kMaxShardBytes)) {
            bytes = add_checked(bytes, shard.file_bytes(), "bytes of a checkpoint");
        }
    }
    const std::int64_t needed = multiply_checked(bytes, copies, "bytes of checkpoints");
    if (const std::int64_t available = free_bytes(disk); needed > available) {
        fail<DoesNotFitError>(
            "{}: a checkpoint takes {}, and the next is written before the last is removed: {} are needed, the disk "
            "has {} free; free some space or name a folder on another disk",
            folder.string(), format_bytes(bytes), format_bytes(needed), format_bytes(available));
    }
}

void write_moments(const fs::path& folder, const schedule::Plan& plan, const ValuesOf& values_of,
                   const FileCalls& calls) {
    std::error_code error;
    if (!fs::create_directory(folder, error)) {
        fail<FileError>("{}: cannot be created: {}", folder.string(), error.message());
    }
    const std::vector<Shard> shards = plan_shards(moment_tensors(plan), kMaxShardBytes);
    for (const Shard& shard : shards) {
        write_shard(folder, shard, values_of, calls);
    }
    if (shards.size() > 1) {
        write_new_text(folder / kIndexFileName, shard_index_text(shards), calls);
    }
    sync_folder(folder, calls);
}

// A tensor of a checkpoint, which must be as it was written.
std::span<const std::byte> checked_bytes(const WeightFolder& folder, const std::string& name,
                                         const Checkpoint& checkpoint) {
    const std::span<const std::byte> bytes = folder.bytes(name);
    const auto expected = checkpoint.facts.checksums.find(name);
    if (expected == checkpoint.facts.checksums.end()) {
        fail<FileError>("{}: no checksum of tensor {}; the checkpoint is damaged",
                        (checkpoint.path / kCheckpointFile).string(), name);
    }
    if (const std::string found = checksum_of(bytes); found != expected->second) {
        fail<FileError>(
            "{}: tensor {} has the checksum {}, {} when it was written: the file is damaged. Copy the checkpoint again "
            "from where it came, or train from the model",
            folder.path().string(), name, found, expected->second);
    }
    return bytes;
}

void restore_moment(Backend& backend, Moment moment, std::size_t parameter, const WeightFolder& folder,
                    const std::string& name, DType expected, const Checkpoint& checkpoint) {
    const ParameterInfo& info = backend.layout().parameters()[parameter];
    const TensorInfo* found = folder.find(name);
    if (found == nullptr || found->shape != info.shape || found->dtype != expected) {
        fail<FileError>("{}: tensor {} is {}; expected is {}, of {} elements", folder.path().string(), name,
                        found == nullptr ? "missing" : "of another shape or type", name_of(expected), info.elements);
    }
    backend.set_moment(moment, parameter, checked_bytes(folder, name, checkpoint));
}

}  // namespace

std::optional<Checkpoint> newest_checkpoint(const fs::path& folder) {
    const Entries entries = entries_of(folder);
    if (entries.whole.empty()) {
        return std::nullopt;
    }
    const auto& [step, path] = *entries.whole.rbegin();
    Checkpoint checkpoint{path, read_checkpoint_facts(path / kCheckpointFile)};
    if (checkpoint.facts.step != step) {
        fail<FileError>("{}: is of step {}, and its folder's name says {}; one of the two was changed",
                        (path / kCheckpointFile).string(), checkpoint.facts.step, step);
    }
    return checkpoint;
}

void restore(Backend& backend, const Checkpoint& checkpoint, const schedule::Plan& plan) {
    const WeightFolder weights = WeightFolder::open(checkpoint.path);
    check_weights(weights, plan.model);
    const WeightFolder optimizer = WeightFolder::open(checkpoint.path / kOptimizerFolder);
    const auto& parameters = backend.layout().parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string& name = parameters[i].name;
        backend.set_weight(i, checked_bytes(weights, name, checkpoint), weights.find(name)->dtype.value());
        for (const auto& [moment, prefix] : kMoments) {
            restore_moment(backend, moment, i, optimizer, fmt::format("{}{}", prefix, name), plan.run.accumulator,
                           checkpoint);
        }
    }
}

void CheckpointFolder::check(const fs::path& folder, const schedule::Plan& plan) {
    std::error_code error;
    const bool is_there = fs::is_directory(folder, error);
    const fs::path disk = is_there ? folder : parent_of(without_trailing_slash(folder));
    if (!fs::is_directory(disk, error)) {
        fail<FileError>("{}: there is no folder {} to make it in; make that one, or name another", folder.string(),
                        disk.string());
    }
    if (::access(disk.c_str(), W_OK | X_OK) != 0) {
        fail<FileError>("{}: the folder {} cannot be written to; name another", folder.string(), disk.string());
    }
    check_space(folder, disk, plan, entries_of(folder).whole.empty() ? 2 : 1);
}

CheckpointFolder::CheckpointFolder(const fs::path& folder, fs::path model, const schedule::Plan& plan, FileCalls calls)
    : folder_(without_trailing_slash(folder)), model_(std::move(model)), plan_(plan), calls_(std::move(calls)) {
    check(folder_, plan_);
    std::error_code error;
    fs::create_directory(folder_, error);  // an existing one is fine
    lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) {
        fail<FileError>("{}: cannot be made or opened: {}; name another folder", folder_.string(),
                        error ? error.message() : std::strerror(errno));
    }
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
        ::close(lock_);
        fail<FileError>("{}: another run keeps its state there now; wait for its end, or name another folder",
                        folder_.string());
    }
    for (const fs::path& path : entries_of(folder_).left_over) {
        remove_folder(path);
    }
}

CheckpointFolder::~CheckpointFolder() {
    ::close(lock_);  // and with it the lock
}

fs::path CheckpointFolder::write(Backend& backend, CheckpointFacts facts, const std::string& run_text) const {
    check_space(folder_, folder_, plan_, 1);
    std::map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < backend.layout().parameters().size(); ++i) {
        by_name[backend.layout().parameters()[i].name] = i;
    }
    const auto noted = [&](const std::string& name, TensorValues values) {
        facts.checksums[name] = checksum_of(values.bytes);
        return values;
    };
    const auto weight = [&](const StoredTensor& tensor) {
        return noted(tensor.name, backend.weight(by_name.at(tensor.name)));
    };
    const auto moment = [&](const StoredTensor& tensor) {
        const auto& [which, prefix] = kMoments[tensor.name.starts_with(kMoments[0].second) ? 0 : 1];
        return noted(tensor.name, backend.moment(which, by_name.at(tensor.name.substr(prefix.size()))));
    };
    const HfFolderWriter writer(request(folder_, model_, plan_, facts.step), calls_);
    writer.write(weight, run_text, [&](const fs::path& partial) {
        write_moments(partial / kOptimizerFolder, plan_, moment, calls_);
        write_new_text(partial / kCheckpointFile, to_json(facts), calls_);
    });
    for (const auto& [step, path] : entries_of(folder_).whole) {
        if (step != facts.step) {
            remove_checkpoint(path);
        }
    }
    return step_path(folder_, facts.step);
}

}  // namespace oomb::trainer
