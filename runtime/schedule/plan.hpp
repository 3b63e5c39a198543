#pragma once
// The plan of a run: every byte in every tier, known before the first operation starts.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/units.hpp"
#include "runtime/schedule/region.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

// Frames of one class of pages in one tier. A frame has up to three planes (K and V; or what is kept of layer input,
// attention output, log-sum-exp); plane p of frame f lies at offset_bytes + plane_offset_bytes(p) + f * plane_bytes[p]
// of the arena, so consecutive frames of a plane are one contiguous tensor.
struct PoolPlan {
    Tier tier = Tier::kHbm;
    PageClass page_class = PageClass::kKv;
    std::int64_t frames = 0;
    std::vector<std::int64_t> plane_bytes;
    std::int64_t offset_bytes = 0;

    std::int64_t plane_offset_bytes(std::size_t plane) const;
    std::int64_t total_bytes() const { return plane_offset_bytes(plane_bytes.size()); }
};

// GPU memory that a process holds outside its arena: the CUDA context (518 MiB with driver 580 on an H200) and the
// modules of cuBLASLt, our kernels and, in bf16, cuDNN. Measured; the driver owns it, so another one may differ. In
// bf16 some runs need one unit less.
inline constexpr std::int64_t kDriver_bytes = 536 * kMiB, kDriverFp32_bytes = 524 * kMiB;
inline constexpr std::int64_t kDriverUnit_bytes = 2 * kMiB;  // it rounds the arena up to a multiple of that

struct Plan {
    ModelShape model;
    RunConfiguration asked;  // as make_plan got it
    RunConfiguration run;    // as it is carried out: nothing kept or held, no shard and no kind of kernels is auto
    RegionTable regions;
    std::vector<PoolPlan> pools;               // only pools with frames
    std::int64_t resident_pages = 0;           // K/V pages whose home is HBM, first in time order over all layers
    std::int64_t kept_hbm = 0, kept_host = 0;  // kept pages by their home, in the order of RunConfiguration::kept_pages
    std::int64_t resident_shards = 0, host_shards = 0;  // of the optimizer's states, see optimizer_schedule.hpp
    std::int64_t arena_bytes[kTiers] = {0, 0};
    std::int64_t page_table_bytes = 0;  // host memory outside the arena: one record per page and per frame

    // GPU memory outside the arena, a unit for what the driver rounds up included; 0 on the CPU.
    std::int64_t driver_bytes() const;
    std::int64_t peak_bytes(Tier tier) const {
        return arena_bytes[static_cast<int>(tier)] + (tier == Tier::kHost ? page_table_bytes : driver_bytes());
    }
    std::int64_t kept_pages() const { return kept_hbm + kept_host; }
    const PoolPlan* pool(Tier tier, PageClass page_class) const;
};

// Plans the longest sequence of the run (run.context_tokens). Validates `run` (UsageError). Deterministic.
//
// Homes of pages under `--offload host`, in the order in which they are given:
// 1. the K/V pages and gradients that must be in HBM: `--hbm-pages N` and the ring that the others pass through;
// 2. kept pages, HBM first as far as run.gpu_memory_bytes reaches, the rest on the host. Before K/V pages, because each
//    kept page that finds room saves computation, while K/V pages in HBM only save copies that hide behind attention.
//    With `--hbm-pages ring` HBM is not to grow with the context: all on the host;
// 3. with `--optimizer-states auto` as many shards of the optimizer's states as the HBM that is left holds. They travel
//    once per step, in a phase of their own that hides nothing of it, and K/V pages do behind attention;
// 4. with `--hbm-pages auto` K/V pages in the HBM that is left, the rest on the host.
// `--kept-pages auto` is the largest number for which both tiers hold what this gives them (so K/V pages that have no
// room on the host push kept pages out), 0 where nothing fits. Without offload everything is in HBM.
//
// `--keep auto` and `--held-chunks auto` are the pair with the fewest FLOPs of a step (flops.hpp) among those that fit
// both budgets; of equals the one with less memory; where none fits nothing is held and kept. Without a budget all
// chunks are held. Of more than 32 numbers of held chunks that fit, 32 are tried, evenly spread.
//
// The host must hold what HBM does not: a plan that it cannot hold does not fit.
Plan make_plan(const ModelShape& model, const RunConfiguration& run);

// The longest sequence that make_plan() takes with the run's chunk, window, pages and logit tile, whatever memory there
// is, and the flag whose value limits it: "--context" where it is the number of tokens itself.
struct ContextLimit {
    std::int64_t tokens = 0;
    std::string_view flag;
};
// The answer does not depend on `run.context_tokens`. Validates `run` (UsageError).
ContextLimit context_limit(const RunConfiguration& run);

// The same step with its K/V in pages of `page_tokens`, a multiple of the plan's that divides chunk and window, for who
// asks how long it takes: chunks and windows are read, written and evicted as a whole, so larger pages move at the same
// moments, fewer at a time. Frames, homes and what is kept are those of `plan`; of `resident_pages` and of a last chunk
// that is no multiple of the page a part of one page per layer is rounded. Offsets, table and peak bytes stay as they
// are and mean nothing.
Plan in_larger_pages(const Plan& plan, std::int64_t page_tokens);

// A tier that the plan does not fit into; a budget of 0 is no limit.
struct Shortfall {
    Tier tier = Tier::kHbm;
    std::int64_t needed_bytes = 0;
    std::int64_t available_bytes = 0;
};
std::vector<Shortfall> shortfalls(const Plan& plan);

// The plan file: format documented in docs/plan-format.md.
inline constexpr int kPlanFormatVersion = 1;
std::string to_json(const Plan& plan);

}  // namespace oomb::schedule
