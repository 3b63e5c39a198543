#pragma once
// The tracks of a profile as a page's lanes: few enough slices to draw, with names, colours and what a tip says.

#include "profiler/report/report.hpp"
#include "timeline/page.hpp"

namespace oomb::profiler {

inline constexpr std::size_t kMostTracks = 60;  // of a page; those with the most slices

struct DrawnTracks {
    timeline::PageLanes lanes;
    std::size_t left_out = 0;  // tracks
};

// Times are counted from `zero_ns`. Work of oomb-train's operations has the colours of their groups; in a profile
// without any, the kernels that take longest have colours of their own.
DrawnTracks page_lanes(const Findings& findings, std::int64_t zero_ns);

// "gemm" of "void cutlass::gemm<float, 4>(float*)": without what a template or a signature says, qualified names kept.
std::string short_name(std::string_view demangled);

}  // namespace oomb::profiler
