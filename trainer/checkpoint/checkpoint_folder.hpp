#pragma once
// A folder that keeps the state of a run: docs/checkpoints.md.

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/schedule/plan.hpp"
#include "trainer/checkpoint/checkpoint_facts.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/weights/hf_folder_writer.hpp"

namespace oomb::trainer {

// A checkpoint that is whole: <folder>/step-<N>.
struct Checkpoint {
    std::filesystem::path path;
    CheckpointFacts facts;
};

// The newest one in `folder`; none where there is no folder or nothing in it. Throws FileError for a damaged one.
// Changes nothing.
std::optional<Checkpoint> newest_checkpoint(const std::filesystem::path& folder);

// Sets weights, m and v. Throws FileError for a tensor that is missing, of another shape or type, or not what was
// written. `backend` is of `plan`, which has an optimizer, and idle.
void restore(Backend& backend, const Checkpoint& checkpoint, const schedule::Plan& plan);

class CheckpointFolder {
  public:
    // Throws FileError for a folder that cannot be made or written to, DoesNotFitError where its disk has no room for
    // two checkpoints, less the one that is there. Writes nothing.
    static void check(const std::filesystem::path& folder, const schedule::Plan& plan);

    // Checks, makes the folder where there is none, and holds it until the end: FileError when another process does.
    // What crashed processes left is removed. `model`: where config and tokenizer come from.
    CheckpointFolder(const std::filesystem::path& folder, std::filesystem::path model, const schedule::Plan& plan,
                     FileCalls calls = FileCalls::system());
    CheckpointFolder(const CheckpointFolder&) = delete;
    CheckpointFolder& operator=(const CheckpointFolder&) = delete;
    ~CheckpointFolder();

    // Writes <folder>/step-<facts.step> from the backend, which is idle; then removes older ones. Checksums are filled
    // in. A failure leaves those that were there. Throws as HfFolderWriter::write, and as check(). Returns its path.
    std::filesystem::path write(Backend& backend, CheckpointFacts facts, const std::string& run_text) const;

  private:
    std::filesystem::path folder_;
    std::filesystem::path model_;
    const schedule::Plan& plan_;
    FileCalls calls_;
    int lock_ = -1;
};

}  // namespace oomb::trainer
