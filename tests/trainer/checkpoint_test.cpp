// State on disk and back, bit for bit, whatever fails on the way.
#include "trainer/checkpoint/checkpoint_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/trainer/step_case.hpp"
#include "tests/weights/failing_calls.hpp"
#include "tests/weights/files.hpp"

namespace oomb::testing {
namespace {

namespace fs = std::filesystem;
using trainer::Checkpoint;
using trainer::CheckpointFacts;
using trainer::CheckpointFolder;
using trainer::FileCalls;
using trainer::mentions;
using trainer::message_of;
using trainer::Moment;
using trainer::newest_checkpoint;
using trainer::read_file;
using trainer::TemporaryFolder;
using trainer::write_file;

using Bits = std::vector<std::vector<std::byte>>;

// Weights, m and v of every parameter.
Bits state_of(trainer::Backend& backend) {
    Bits bits;
    const auto add = [&](const trainer::TensorValues& values) {
        bits.emplace_back(values.bytes.begin(), values.bytes.end());
    };
    for (std::size_t i = 0; i < backend.layout().parameters().size(); ++i) {
        add(backend.weight(i));
        add(backend.moment(Moment::kM, i));
        add(backend.moment(Moment::kV, i));
    }
    return bits;
}

CheckpointFacts facts_after(std::int64_t step) {
    return {.step = step,
            .sequences = 2 * step,
            .last_loss = 0.1 + 0.2,  // no short decimal
            .data_file = "tokens \"1\".npy",
            .data_fingerprint = "0123456789abcdef",
            .cursor = {.epoch = 1, .offset_tokens = 77, .source_tokens = 1000},
            .settings = {{"--learning-rate", "0.001"}, {"--steps", "10"}}};
}

// A run of two sequences a step, whose steps are numbered.
template <class T>
class Trained {
  public:
    explicit Trained(const StepCase& step) : step_(step), backend_(step.plan), executor_(step.plan, backend_) {
        set_weights(backend_, step.weights);
    }
    void train(std::int64_t first, std::int64_t last) {
        const std::vector<trainer::SequenceView> views{step_.sequences[0].view(), step_.sequences[1].view()};
        for (std::int64_t number = first; number <= last; ++number) {
            executor_.compute_gradients(views, {.step = number, .learning_rate = 0.01, .weight_decay = 0.1});
            executor_.update_weights();
        }
    }
    trainer::CpuBackend<T>& backend() { return backend_; }

  private:
    const StepCase& step_;
    trainer::CpuBackend<T> backend_;
    trainer::Executor executor_;
};

// A model's config, a plan with states in both tiers, a backend after two steps.
struct Setting {
    TemporaryFolder folder;
    StepCase step{step_run(DType::kF32, {.offload = Offload::kHost, .resident_shards = some(2)})};
    Trained<float> run{step};

    Setting() {
        write_file(folder / "config.json", R"({"model_type": "llama", "torch_dtype": "bfloat16"})");
        run.train(1, 2);
    }
    fs::path state() const { return folder / "state"; }
    CheckpointFolder checkpoints(FileCalls calls = FileCalls::system()) const {
        return {state(), folder / "config.json", step.plan, std::move(calls)};
    }
    void write(std::int64_t number) { checkpoints().write(run.backend(), facts_after(number), "{}"); }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(state())) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }
    // What restoring says, of a backend that is thrown away.
    std::string refusal() const {
        trainer::CpuBackend<float> backend(step.plan);
        return message_of<FileError>([&] { restore(backend, newest_checkpoint(state()).value(), step.plan); });
    }
};

void change_byte(const fs::path& path, std::int64_t from_end) {
    std::string text = read_file(path);
    text[text.size() - from_end] ^= 1;
    write_file(path, text);
}

template <class T>
void check_goes_on(RunConfiguration run) {
    const StepCase step(run);
    Trained<T> whole(step);
    whole.train(1, 4);

    TemporaryFolder folder;
    write_file(folder / "config.json", "{}");
    Trained<T> first(step);
    first.train(1, 2);
    CheckpointFolder(folder / "state", folder / "config.json", step.plan).write(first.backend(), facts_after(2), "{}");

    // States lie elsewhere now.
    run.resident_shards = some(1);
    run.shard_parameters = 1024;
    const StepCase moved(run);
    Trained<T> second(moved);
    second.train(1, 1);  // something to be overwritten
    restore(second.backend(), newest_checkpoint(folder / "state").value(), moved.plan);
    CHECK(state_of(second.backend()) == state_of(first.backend()));
    second.train(3, 4);
    CHECK(state_of(second.backend()) == state_of(whole.backend()));
    CHECK_FALSE(state_of(second.backend()) == state_of(first.backend()));
}

TEST_CASE("a run that goes on from a checkpoint, with states in other places, has the bits of one that did not end") {
    const Way way{.offload = Offload::kHost, .resident_shards = some(3)};
    check_goes_on<double>(step_run(DType::kF64, way));
    check_goes_on<float>(step_run(DType::kF32, way));
    RunConfiguration narrow = step_run(DType::kF32, way);
    narrow.compute = DType::kBF16;
    check_goes_on<BFloat16>(narrow);
    narrow.split_masters = true;
    check_goes_on<BFloat16>(narrow);
}

TEST_CASE("what a checkpoint says of the run comes back") {
    Setting setting;
    CHECK_FALSE(newest_checkpoint(setting.state()).has_value());
    setting.write(2);
    const Checkpoint found = newest_checkpoint(setting.state()).value();
    const CheckpointFacts expected = facts_after(2);
    CHECK(found.path == setting.state() / "step-2");
    CHECK(found.facts.step == 2);
    CHECK(found.facts.sequences == 4);
    CHECK(found.facts.last_loss == expected.last_loss);
    CHECK(found.facts.data_file == expected.data_file);
    CHECK(found.facts.data_fingerprint == expected.data_fingerprint);
    CHECK(found.facts.cursor == expected.cursor);
    CHECK(found.facts.settings == expected.settings);
    CHECK(found.facts.checksums.size() == 3 * setting.run.backend().layout().parameters().size());
    CHECK(mentions(read_file(found.path / "config.json"), {R"("torch_dtype": "float32")"}));
}

TEST_CASE("the newest stays, and what is not ours") {
    Setting setting;
    setting.write(2);
    fs::create_directory(setting.state() / "step-1.partial-1");
    fs::create_directory(setting.state() / "step-1.removed-7");
    write_file(setting.state() / "step-notes.txt", "mine");
    fs::create_directory(setting.state() / "step-99");  // no checkpoint.json
    fs::create_directory(setting.state() / "step-050");
    CHECK(newest_checkpoint(setting.state())->facts.step == 2);
    CHECK(setting.names().size() == 6);  // looking changes nothing
    setting.write(10);
    CHECK(setting.names() == std::vector<std::string>{"step-050", "step-10", "step-99", "step-notes.txt"});
    CHECK(newest_checkpoint(setting.state())->facts.step == 10);
}

TEST_CASE("whichever write or flush fails, the checkpoint before is whole and the next attempt works") {
    Setting setting;
    setting.write(2);
    const std::string before = read_file(setting.state() / "step-2/checkpoint.json");
    int failing = 0;
    for (;; ++failing) {
        trainer::FailingCalls calls(failing);
        try {
            setting.checkpoints(calls.calls()).write(setting.run.backend(), facts_after(3), "{}");
            CHECK(calls.made() == failing);
            break;
        } catch (const FileError& error) {
            CAPTURE(failing);
            CHECK(mentions(error.what(), {"No space left"}));
            CHECK(read_file(setting.state() / "step-2/checkpoint.json") == before);
            // The last call flushes the parent, after the rename: the next one is whole by then, too.
            const bool both = fs::exists(setting.state() / "step-3/checkpoint.json");
            CHECK(setting.names().size() == (both ? 2 : 1));
            fs::remove_all(setting.state() / "step-3");
        }
    }
    CHECK(failing > 40);  // two tensors' worth of each of 26 parameters, more of one, their files and folders
    CHECK(setting.names() == std::vector<std::string>{"step-3"});
}

TEST_CASE("a second run on the same folder is refused while the first goes on") {
    Setting setting;
    {
        const CheckpointFolder first = setting.checkpoints();
        CHECK(mentions(message_of<FileError>([&] { setting.checkpoints(); }), {"state", "another run"}));
    }
    CheckpointFolder(setting.state() / "", setting.folder / "config.json", setting.step.plan)
        .write(setting.run.backend(), facts_after(2), "{}");
    CHECK(setting.names() == std::vector<std::string>{"step-2"});
}

TEST_CASE("a damaged checkpoint is told by the tensor or the file, and sets nothing wrong") {
    Setting setting;
    setting.write(2);
    const fs::path weights = setting.state() / "step-2/model.safetensors";
    const fs::path moments = setting.state() / "step-2/optimizer/model.safetensors";
    const fs::path facts = setting.state() / "step-2/checkpoint.json";
    for (const fs::path& path : {weights, moments}) {
        change_byte(path, 1);
        CHECK(mentions(setting.refusal(), {"checksum", "damaged", "weight"}));
        change_byte(path, 1);
        const std::string whole = read_file(path);
        write_file(path, std::string_view(whole).substr(0, whole.size() - 4));
        CHECK(mentions(setting.refusal(), {path.string()}));
        write_file(path, whole);
    }
    const std::string text = read_file(facts);
    const auto refused_with = [&](std::string_view from, std::string_view to) {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        write_file(facts, changed);
        const std::string message = message_of<FileError>([&] { newest_checkpoint(setting.state()); });
        write_file(facts, text);
        return message;
    };
    CHECK(mentions(refused_with("\"version\": 1", "\"version\": 2"), {"version 2", "version 1 is read"}));
    CHECK(mentions(refused_with("oomb-checkpoint", "oomb-run"), {"format", "oomb-checkpoint"}));
    CHECK(mentions(refused_with("\"step\": 2", "\"step\": 3"), {"step 3", "name says 2"}));
    CHECK(mentions(refused_with("\"step\": 2", "\"step\": -2"), {"step", "-2"}));
    CHECK(mentions(refused_with("0123456789abcdef", "xyz"), {"fingerprint", "xyz"}));
    CHECK(mentions(refused_with("}", ""), {"checkpoint.json"}));
}

TEST_CASE("moments of another type, and tensors that are missing, are refused") {
    Setting setting;
    setting.write(2);
    const StepCase exact(step_run(DType::kF64, {.resident_shards = some(2)}));
    trainer::CpuBackend<double> backend(exact.plan);
    const auto refusal = [&] {
        return message_of<FileError>([&] { restore(backend, newest_checkpoint(setting.state()).value(), exact.plan); });
    };
    CHECK(mentions(refusal(), {"m.", "another shape or type", "fp64"}));
    fs::remove_all(setting.state() / "step-2/optimizer");
    CHECK(mentions(refusal(), {"optimizer"}));
}

TEST_CASE("a folder that cannot be made or written to is refused before the run") {
    const Setting setting;
    const auto check = [&](const fs::path& state) {
        return message_of<FileError>([&] { CheckpointFolder::check(state, setting.step.plan); });
    };
    CHECK(mentions(check(setting.folder / "absent/state"), {"absent", "no folder"}));
    write_file(setting.folder / "file", "");
    CHECK(mentions(check(setting.folder / "file/state"), {"no folder"}));
    CHECK_FALSE(fs::exists(setting.state()));
    CheckpointFolder::check(setting.state() / "", setting.step.plan);
}

TEST_CASE("settings that differ are listed") {
    const auto lines =
        changed_settings(facts_after(1), {{"--learning-rate", "0.002"}, {"--steps", "10"}, {"--x", "1"}});
    REQUIRE(lines.size() == 2);
    CHECK(mentions(lines[0], {"--learning-rate is 0.002 now and was 0.001"}));
    CHECK(mentions(lines[1], {"--x is 1 now"}));
}

// Token i is i, but for one.
class Counting : public trainer::TokenSource {
  public:
    Counting(std::int64_t tokens, std::int64_t changed) : tokens_(tokens), changed_(changed) {}
    const std::string& name() const override { return name_; }
    std::int64_t tokens() const override { return tokens_; }
    std::int64_t element_bytes() const override { return 4; }
    void read(std::int64_t offset, std::span<std::int32_t> out) const override {
        REQUIRE(offset >= 0);
        REQUIRE(offset + std::ssize(out) <= tokens_);
        for (std::int64_t i = 0; i < std::ssize(out); ++i) {
            out[i] = static_cast<std::int32_t>((offset + i) % 1'000'000'007) + (offset + i == changed_ ? 1 : 0);
        }
    }

  private:
    std::string name_ = "counting";
    std::int64_t tokens_, changed_;
};

TEST_CASE("fingerprints: every token of short data, pieces of long data, also of more than 2^57 tokens") {
    for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{1023}, std::int64_t{1025}, std::int64_t{65536}}) {
        CAPTURE(tokens);
        const std::string plain = trainer::fingerprint_of(Counting(tokens, -1));
        CHECK(plain == trainer::fingerprint_of(Counting(tokens, -1)));
        for (const std::int64_t changed : {std::int64_t{0}, tokens / 2, tokens - 1}) {
            CHECK(trainer::fingerprint_of(Counting(tokens, changed)) != plain);
        }
    }
    constexpr std::int64_t kLong = std::int64_t{1} << 60;
    const std::string plain = trainer::fingerprint_of(Counting(kLong, -1));
    CHECK(trainer::fingerprint_of(Counting(kLong, 0)) != plain);
    CHECK(trainer::fingerprint_of(Counting(kLong, kLong - 1)) != plain);
    CHECK(trainer::fingerprint_of(Counting(kLong, kLong / 2 + 12345)) == plain);  // between two pieces
}

}  // namespace
}  // namespace oomb::testing
