#pragma once
// The flags that describe a run. oomb-plan and oomb-train take the same ones, so a plan is asked for in the words of
// the run that it is about.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/core/model_shape.hpp"
#include "runtime/core/run_configuration.hpp"

namespace oomb {

// Flags as typed. The values here are the defaults; a program with other ones sets them before add_run_flags.
struct RunFlags {
    std::string model;    // --model, required
    std::string context;  // --context, required
    std::string chunk = "4K";
    std::string page_tokens = "128";
    std::string window = "16K";
    std::string logit_tile = "1K";
    std::string attention = "dense";
    std::string top_k;         // empty: not given
    std::string local_window;  // empty: not given
    std::string sinks;         // empty: not given, which is none
    std::string attention_kernels = "auto";
    std::string offload = "none";
    std::string keep = "none";
    std::string kept_pages = "all";
    std::string held_chunks;  // empty: not given, which is 0, all with --keep all
    std::string hbm_pages = "auto";
    std::string gradient_pages = "all";
    std::string optimizer_states = "auto";
    std::string gpu_memory;   // empty: not given
    std::string host_memory;  // empty: not given
    std::string device = "cpu";
    std::string dtype;           // empty: bf16 on cuda, fp32 on cpu
    std::string gradient_dtype;  // empty: as sums, fp32 or fp64
    std::string master_weights = "fp32";
    bool no_optimizer = false;
    bool deterministic = false;
    bool keep_is_free = false;  // no flag: who searches for what is kept says so, --kept-pages then limits it
};

// Budgets with --device cuda where none is given: an H200 with 141 GB in a machine that lends 125 GiB to the process.
inline constexpr const char* kDefaultGpuMemory = "139GiB";
inline constexpr const char* kDefaultHostMemory = "125GiB";

// Adds the flags in groups. `flags` outlives `app`.
void add_run_flags(CLI::App& app, RunFlags& flags);

// The flags as they would be typed: --model, --context and all that differ from the defaults above.
std::string as_typed(const RunFlags& flags);

// As one word of a command line.
std::string quoted_for_shell(const std::string& value);

// Puts how the sequence is cut, where bytes lie and the types of gradients and master weights into the texts. The
// places of optimizer states that have a name are all, none and auto.
void set_flags(RunFlags& flags, const RunConfiguration& run);

// Reads the texts and validates the result. Throws UsageError: the flag, what was found, what is allowed.
// With --device cpu a budget that is not given is 0 (no limit of its own); see free_memory_limit_bytes.
RunConfiguration to_run_configuration(const RunFlags& flags);

// With --device cpu both tiers are this machine's memory. Unless both budgets are given, their sum must stay below what
// is free now, which this returns; nothing where budgets describe the machine. Throws FileError when it cannot be read.
std::optional<std::int64_t> free_memory_limit_bytes(const RunFlags& flags);

// What --hardware names, a machine of known_hardware.hpp or a file: UsageError with --device cpu and for what is
// neither; FileError as read_hardware_profile.
HardwareProfile read_gpu_profile(const std::string& name_or_path, DeviceKind device);

// With --device cuda: budgets that are not given become the memory that this machine's profile has, in whole GiB.
void take_budgets_of(const std::string& hardware, RunFlags& flags);  // as read_gpu_profile; "" changes nothing

// One sentence where the context is longer than the positions the model was trained for.
std::optional<std::string> position_warning(const RunConfiguration& run, const ModelShape& model);

}  // namespace oomb
