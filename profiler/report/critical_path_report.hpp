#pragma once
// The critical path of a step as a table for a terminal, and as JSON (docs/comparing.md).

#include <string>
#include <vector>

#include "profiler/analysis/critical_path.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {

// All that is said of a step's path, worked out once.
struct PathFindings {
    std::string caption;              // which step of which files
    std::vector<std::string> notes;   // sentences on what is not whole
    std::vector<PathOperation> step;  // in program order
    CriticalPath path = {};
    std::vector<EngineWait> waits = {};  // the longest ones of the compute engine
};

std::string path_text(const PathFindings& findings);
Json path_json(const PathFindings& findings);

}  // namespace oomb::profiler
