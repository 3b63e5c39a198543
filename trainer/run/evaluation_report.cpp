#include "trainer/run/evaluation_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "runtime/core/units.hpp"
#include "runtime/core/version.hpp"
#include "trainer/run/json_value.hpp"

namespace oomb::trainer {
namespace {

std::string row(const std::string& positions, const LossSum& sum) {
    if (sum.valid_targets == 0) {
        return fmt::format("  {:<24}{:>12}{:>14}{:>14}\n", positions, "-", "-", 0);
    }
    return fmt::format("  {:<24}{:>12.6f}{:>14.4f}{:>14}\n", positions, sum.mean(), std::exp(sum.mean()),
                       format_count(sum.valid_targets));
}

// Sums of all layers.
RecallSums of_all_layers(const std::vector<RecallSums>& recall, std::size_t budgets, std::size_t budget) {
    RecallSums sum;
    for (std::size_t i = budget; i < recall.size(); i += budgets) {
        sum += recall[i];
    }
    return sum;
}

std::string recall_table(const Evaluation& evaluation, const RunConfiguration& run) {
    std::string text = fmt::format(
        "\nshare of the attention on pages before the chunk, all layers\n  {:<12}{:>14}{:>12}{:>12}{:>12}{:>12}\n",
        "pages", "top-K", "best", "latest", "random", "of all");
    const std::size_t budgets = run.recall_budgets.size();
    for (std::size_t i = 0; i < budgets; ++i) {
        const RecallSums sum = of_all_layers(evaluation.recall, budgets, i);
        if (sum.query_pages == 0) {
            text +=
                fmt::format("  {:<12}  no page of queries has more pages before its chunk\n", run.recall_budgets[i]);
            continue;
        }
        const auto share = [&](double covered) { return covered / sum.history_mass; };
        text += fmt::format("  {:<12}{:>14.4f}{:>12.4f}{:>12.4f}{:>12.4f}{:>12.4f}\n", run.recall_budgets[i],
                            share(sum.by_score), share(sum.by_mass), share(sum.by_recency), share(sum.by_chance),
                            sum.history_mass / sum.all_mass);
    }
    return text + "  (of all: the part of all attention that lies before the chunk)\n";
}

// What is divided by no targets is null.
Json loss_json(const LossSum& sum) {
    if (sum.valid_targets == 0) {
        return {{"loss", nullptr}, {"perplexity", nullptr}, {"valid_targets", 0}};
    }
    return {{"loss", sum.mean()}, {"perplexity", std::exp(sum.mean())}, {"valid_targets", sum.valid_targets}};
}

Json buckets_json(const std::vector<PositionBucket>& buckets, const std::vector<LossSum>& sums) {
    Json list = Json::array();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
        Json one = {{"first", buckets[i].first}, {"end", buckets[i].end}};
        one.update(loss_json(sums[i]));
        list.push_back(std::move(one));
    }
    return list;
}

Json documents_json(const Evaluation& evaluation) {
    Json list = Json::array();
    for (const DocumentLoss& document : evaluation.documents) {
        Json one = {{"offset_tokens", document.offset_tokens}, {"tokens", document.tokens}};
        one.update(loss_json(document.all));
        one["buckets"] = buckets_json(evaluation.buckets, document.by_bucket);
        list.push_back(std::move(one));
    }
    return list;
}

Json recall_json(const std::vector<RecallSums>& recall, const RunConfiguration& run) {
    Json list = Json::array();
    const std::size_t budgets = run.recall_budgets.size();
    for (std::size_t i = 0; i < recall.size(); ++i) {
        const RecallSums& sums = recall[i];
        list.push_back({{"layer", i / budgets},
                        {"pages", run.recall_budgets[i % budgets]},
                        {"query_pages", sums.query_pages},
                        {"all_mass", sums.all_mass},
                        {"history_mass", sums.history_mass},
                        {"top_k", sums.by_score},
                        {"best", sums.by_mass},
                        {"latest", sums.by_recency},
                        {"random", sums.by_chance},
                        {"distances", sums.distances}});
    }
    return list;
}

Json run_json(const EvaluationOptions& options, const schedule::Plan& plan) {
    const RunConfiguration& run = plan.run;
    Json json = {{"model", options.model.string()},
                 {"data", options.data.string()},
                 {"by_document", options.by_document},
                 {"attention", name_of(run.attention)}};
    if (has_page_lists(run.attention)) {
        json["top_k"] = run.top_k;
    }
    if (run.attention == AttentionMode::kRandom) {
        json["seed"] = run.page_seed;
    }
    json.update({{"context_tokens", run.context_tokens},
                 {"chunk_tokens", run.chunk_tokens},
                 {"page_tokens", run.page_tokens},
                 {"window_tokens", run.window_tokens},
                 {"compute_dtype", name_of(run.compute)},
                 {"accumulator_dtype", name_of(run.accumulator)},
                 {"device", name_of(run.device)},
                 {"threads", options.threads}});
    return json;
}

Json head_json(const EvaluationOptions& options, const schedule::Plan& plan, bool interrupted) {
    const BuildInfo& build = build_info();
    return {{"format", "oomb-evaluation"},
            {"version", 1},
            {"program", fmt::format("oomb-train {} ({})", build.version, build.commit)},
            {"command", options.command},
            {"run", run_json(options, plan)},
            {"interrupted", interrupted}};
}

// A gradient that is zero has no direction.
Json finite_or_null(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace

std::string gradient_error_table(const GradientErrors& errors) {
    std::string text = fmt::format("  {:<8}{:>12}{:<4}{:<10}{:>10}{:>14}{:>16}\n", "pages", "loss", "", "gradient of",
                                   "cosine", "norm ratio", "relative error");
    text += fmt::format("  {:<8}{:>12.6f}\n", "dense", errors.dense_loss);
    const std::size_t per_plan = errors.losses.empty() ? 0 : errors.rows.size() / errors.losses.size();
    for (std::size_t plan = 0; plan < errors.losses.size(); ++plan) {
        GradientSums sums[3];
        for (std::size_t i = plan * per_plan; i < (plan + 1) * per_plan; ++i) {
            sums[static_cast<int>(errors.rows[i].of)] += errors.rows[i].sums;
        }
        for (const GradientOf of : {GradientOf::kKeys, GradientOf::kValues, GradientOf::kWeights}) {
            const GradientSums& sum = sums[static_cast<int>(of)];
            text += of == GradientOf::kKeys
                        ? fmt::format("  {:<8}{:>12.6f}", errors.rows[plan * per_plan].pages, errors.losses[plan])
                        : fmt::format("  {:20}", "");
            text += fmt::format("    {:<10}{:>11.6f}{:>14.6f}{:>16.6f}\n", name_of(of), sum.cosine(), sum.norm_ratio(),
                                sum.relative_error());
        }
    }
    return text;
}

std::string gradient_error_json(const GradientErrors& errors, const EvaluationOptions& options,
                                const schedule::Plan& plan) {
    Json json = head_json(options, plan, errors.interrupted);
    json["run"].erase("top_k");
    json["tokens"] = errors.tokens;
    json["dense_loss"] = errors.dense_loss;
    const std::size_t per_plan = errors.losses.empty() ? 0 : errors.rows.size() / errors.losses.size();
    json["losses"] = Json::array();
    for (std::size_t i = 0; i < errors.losses.size(); ++i) {
        json["losses"].push_back({{"pages", errors.rows[i * per_plan].pages}, {"loss", errors.losses[i]}});
    }
    json["gradient_error"] = Json::array();
    for (const GradientError& row : errors.rows) {
        json["gradient_error"].push_back({{"pages", row.pages},
                                          {"layer", row.layer < 0 ? Json(nullptr) : Json(row.layer)},
                                          {"of", name_of(row.of)},
                                          {"cosine", finite_or_null(row.sums.cosine())},
                                          {"norm_ratio", finite_or_null(row.sums.norm_ratio())},
                                          {"relative_error", finite_or_null(row.sums.relative_error())}});
    }
    return json.dump(2) + "\n";
}

std::string evaluation_table(const Evaluation& evaluation, const schedule::Plan& plan) {
    std::string text = fmt::format("  {:<24}{:>12}{:>14}{:>14}\n", "positions", "loss", "perplexity", "targets");
    for (std::size_t i = 0; i < evaluation.buckets.size(); ++i) {
        const PositionBucket& bucket = evaluation.buckets[i];
        text += row(fmt::format("{} to {}", format_count(bucket.first), format_count(bucket.end - 1)),
                    evaluation.by_bucket[i]);
    }
    text += row("all", evaluation.all);
    return evaluation.recall.empty() ? text : text + recall_table(evaluation, plan.run);
}

std::string evaluation_json(const Evaluation& evaluation, const EvaluationOptions& options,
                            const schedule::Plan& plan) {
    Json json = head_json(options, plan, evaluation.interrupted);
    json.update(loss_json(evaluation.all));
    json["buckets"] = buckets_json(evaluation.buckets, evaluation.by_bucket);
    json["documents"] = documents_json(evaluation);
    if (!plan.run.recall_budgets.empty()) {
        json["recall"] = recall_json(evaluation.recall, plan.run);
    }
    return json.dump(2) + "\n";
}

}  // namespace oomb::trainer
