#include "simulator/lists/locality.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/lists/locality_fit.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "Which pages the lists of a recorded top-K run name, and the numbers of the model (sink, recency, zipf) that come\n"
    "nearest to it: for --locality of the other sub-commands. Prints what lists of the trace and lists of the model "
    "have\n"
    "in common. It holds for the model and the text of that run.";
constexpr const char* kFooter =
    "Exit code: 0 done; 1 failed, the file cannot be read or holds no lists; 2 wrong usage.\n"
    "\n"
    "Example: record a run, fit, predict with it\n"
    "  oomb-train --model DIR --data data.npy --context 8K --chunk 512 --page-tokens 32 --attention topk --top-k 16 "
    "\\\n"
    "      --steps 1 --trace run.trace\n"
    "  oomb-plan locality --trace run.trace --json locality.json\n"
    "  oomb-plan --model models/qwen2.5-7b.json --context 128K --offload host --attention topk --top-k 64 \\\n"
    "      --locality locality.json\n";

struct LocalityFlags {
    std::string trace;
    std::string locality;  // empty: fit
    std::string json_path;
};

std::string table(const ListStatistics& real, const ListStatistics& model) {
    std::string text = fmt::format("  {:<52}{:>10}{:>10}\n", "", "trace", "model");
    const auto row = [&](const std::string& name, double a, double b) {
        text += fmt::format("  {:<52}{:>9.2f}%{:>9.2f}%\n", name, 100 * a, 100 * b);
    };
    row("of a list's pages, among the latest before the chunk", real.recent_share, model.recent_share);
    row("a list names, of the pages before the chunk", real.named_share, model.named_share);
    for (std::size_t i = 0; i < real.by_place.size(); ++i) {
        row(fmt::format("hit rate of page {} of the sequence", real.by_place[i].first), real.by_place[i].hit_rate,
            model.by_place[i].hit_rate);
    }
    for (std::size_t i = 0; i < real.by_distance.size(); ++i) {
        const ListStatistics::Bin& bin = real.by_distance[i];
        row(bin.last == bin.first ? "hit rate of the latest page before the chunk"
                                  : fmt::format("  {} to {} pages before it", bin.first, bin.last),
            bin.hit_rate, model.by_distance[i].hit_rate);
    }
    for (std::size_t i = 0; i < real.groups.size(); ++i) {
        row(fmt::format("different pages in {} neighbouring lists", real.groups[i].query_pages),
            real.groups[i].distinct, model.groups[i].distinct);
    }
    row("of a list's pages, also in the list before", real.neighbour_overlap, model.neighbour_overlap);
    row("of a chunk's pages, also in those of the chunk before", real.chunk_overlap, model.chunk_overlap);
    return text;
}

Json statistics_json(const ListStatistics& statistics) {
    const auto bins = [](const std::vector<ListStatistics::Bin>& list) {
        Json json = Json::array();
        for (const ListStatistics::Bin& bin : list) {
            json.push_back({{"first", bin.first}, {"last", bin.last}, {"hit_rate", bin.hit_rate}});
        }
        return json;
    };
    Json groups = Json::array();
    for (const ListStatistics::Group& group : statistics.groups) {
        groups.push_back({{"query_pages", group.query_pages}, {"distinct_share", group.distinct}});
    }
    return {{"named_share", statistics.named_share},
            {"recent_share", statistics.recent_share},
            {"hit_rate_by_place", bins(statistics.by_place)},
            {"hit_rate_by_distance", bins(statistics.by_distance)},
            {"groups", groups},
            {"neighbour_overlap", statistics.neighbour_overlap},
            {"chunk_overlap", statistics.chunk_overlap}};
}

ExitCode run(const LocalityFlags& flags, const Call& call) {
    const PageTrace trace = read_page_trace(flags.trace);
    const ListStatistics real = statistics_of(trace);
    if (real.lists == 0) {
        fail<FileError>("{}: of no chunk and layer it holds every list", flags.trace);
    }
    const Locality locality = flags.locality.empty() ? fit_locality(trace) : read_locality(flags.locality);
    const ListStatistics model = statistics_of(trace, locality);
    call.out << fmt::format(
        "{}, step {}: {} layers, {} tokens in chunks of {}, pages of {}, lists of {}; {} lists{}\n\n", flags.trace,
        trace.step, trace.run.layers, format_count(trace.run.context_tokens), format_count(trace.run.chunk_tokens),
        trace.run.page_tokens, trace.run.top_k, format_count(real.lists), trace.complete ? "" : ", some are missing");
    call.out << fmt::format("{}: {}\n\n{}", flags.locality.empty() ? "fitted" : "given", to_text(locality),
                            table(real, model));
    if (flags.locality.empty()) {
        call.out << fmt::format("\nuse it: --locality {:.4g},{:.4g},{:.4g}\n", locality.sink, locality.recency,
                                locality.zipf);
    }
    Json file = locality_json(locality);
    file["lists"] = real.lists;
    file["trace"] = statistics_json(real);
    file["model"] = statistics_json(model);
    write_json(flags.json_path, file);
    finish(call.out);
    return ExitCode::kDone;
}

}  // namespace

ExitCode locality(const Call& call) {
    CLI::App app(kDescription, call.program);
    LocalityFlags flags;
    prepare_command_line(app, kFooter);
    app.add_option("--trace", flags.trace, "a trace of oomb-train --attention topk")->required()->type_name("FILE");
    app.add_option("--locality", flags.locality, "compare these numbers, or those of this file, instead of fitting")
        ->type_name("S,R,Z|FILE");
    app.add_option("--json", flags.json_path, "also write numbers and comparison to this file, for --locality")
        ->type_name("FILE");
    const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err);
    return end ? *end : run(flags, call);
}

}  // namespace oomb::simulator
