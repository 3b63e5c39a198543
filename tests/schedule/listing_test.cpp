// A tiny step, operation by operation, compared with tests/golden/schedule_tiny.txt. After a change that is meant,
// write the file anew with
//   OOMB_UPDATE_GOLDEN=1 build/cpu/tests/schedule/schedule_tests --source-file=*listing_test.cpp
// and read the difference before committing it.
#include <doctest/doctest.h>

#include <cstdlib>

#include "runtime/core/text_file.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::Access;
using schedule::Operation;

std::string text_of(const schedule::RegionUse& use) {
    return fmt::format(" {}{}{}{}{}", use.begins ? "+" : "",
                       use.access == Access::kWrite ? "w:" : "r:", name_of(use.region),
                       use.slot > 0 ? fmt::format("[{}]", use.slot) : "", use.ends ? "-" : "");
}

std::string text_of(const schedule::PageRequest& request) {
    static constexpr std::string_view kUses[] = {"birth", "read", "fetch", "accumulate", "write_back", "release"};
    const PageSet& pages = request.pages;
    return fmt::format(" {}:{}[{}..{}]", kUses[static_cast<int>(request.use)], name_of(pages.page_class), pages.first,
                       pages.first + pages.count - 1);
}

std::string listing(const std::vector<Operation>& operations) {
    std::string text = "# regions: + begins, - ends a life, r reads, w writes\n";
    for (const Operation& operation : operations) {
        const auto& id = operation.id;
        text += fmt::format("{:<9} chunk {} layer {} {}.{} @{} rows {}+{}:", name_of(id.phase), id.chunk, id.layer,
                            name_of(id.kind), id.part, name_of(operation.engine), operation.first_row, operation.rows);
        for (const auto& use : operation.regions) {
            text += text_of(use);
        }
        for (const auto& request : operation.requests) {
            text += text_of(request);
        }
        text += "\n";
    }
    return text;
}

// One shard in HBM, four on the host: from the first fetch, in the last chunk's backward, on.
std::string optimizer_listing(const ModelShape& model, RunConfiguration run) {
    run.shard_parameters = model.parameters() / 5 + 1;
    run.resident_shards = {Amount::Mode::kCount, 1};
    std::vector<Operation> operations = operations_of(model, run);
    const auto first = std::find_if(operations.begin(), operations.end(), [](const Operation& operation) {
        return operation.id.kind == schedule::Kind::kFetchState;
    });
    operations.erase(operations.begin(), first);
    return listing(operations);
}

TEST_CASE("two layers, two chunks, offloaded: nothing kept, inputs or outputs or both kept, held chunks, shards") {
    ModelShape model = RandomSteps(1).next().model;
    model.layers = 2;
    RunConfiguration run;
    run.page_tokens = 8;
    run.chunk_tokens = 16;
    run.window_tokens = 16;
    run.context_tokens = 27;
    run.logit_tile_tokens = 16;
    run.offload = Offload::kHost;
    std::string text = "## keep none\n" + listing(operations_of(model, run));
    for (const Keep keep : {Keep::kInputAndOutput, Keep::kInput, Keep::kOutput}) {
        run.keep = keep;
        text += fmt::format("## keep {}\n", name_of(keep)) + listing(operations_of(model, run));
    }
    run.keep = Keep::kNone;
    run.held_chunks = {Amount::Mode::kCount, 1};
    text += "## held chunks 1\n" + listing(operations_of(model, run));
    run.held_chunks = {Amount::Mode::kAll, 0};
    text += "## held chunks all\n" + listing(operations_of(model, run));
    run.compute = DType::kBF16;
    text += "## optimizer states in both tiers, bf16\n" + optimizer_listing(model, run);

    const std::filesystem::path path = OOMB_SOURCE_DIR "/tests/golden/schedule_tiny.txt";
    if (std::getenv("OOMB_UPDATE_GOLDEN") != nullptr) {
        write_text_file(path, text);
    }
    CHECK(read_text_file(path, 1 << 20) == text);
}

}  // namespace
}  // namespace oomb::testing
