#pragma once
// A report as one HTML page that needs nothing else: no network, no other file. Headings, bars, tables, lanes of slices
// over time, memory over time and a roofline, from top to bottom as they are added. page.js draws them; lanes and
// memory share one view that zooms and moves.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/core/json.hpp"
#include "timeline/intervals.hpp"
#include "timeline/timeline.hpp"

namespace oomb::timeline {

// The colours of page.css, in its order.
enum class Color : std::uint8_t { kBlue, kOrange, kGreen, kViolet, kTeal, kPink, kBrown, kGrey, kExposed, kIdle };

struct BarPart {
    std::string name;
    std::int64_t ns = 0;
    Color color = Color::kBlue;
};
struct Bar {
    std::vector<BarPart> parts;
    std::int64_t whole_ns = 0;  // takes the whole width
};

// A cell is text, put to the right, or a bar. Columns whose head begins with '<' are put to the left.
using Cell = std::variant<std::string, Bar>;
struct Table {
    std::vector<std::string> head;
    std::vector<std::vector<Cell>> rows;
};

std::string text_of_ns(std::int64_t ns);                           // "12.3 ms"
std::string text_of_share(std::int64_t part, std::int64_t whole);  // "12.5 %"; empty of nothing

struct Category {
    std::string name;  // in the legend; empty: not there
    Color color = Color::kBlue;
};

// Texts that many slices have, each once.
class Texts {
  public:
    std::int64_t of(const std::string& text);
    const std::vector<std::string>& all() const { return texts_; }

  private:
    std::map<std::string, std::int64_t> numbers_;
    std::vector<std::string> texts_;
};

struct PageSlice {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t category = 0;  // in PageLanes::categories
    std::int64_t count = 1;      // pieces of work that are drawn together
    std::int64_t name = 0;       // of the only one, in PageLanes::texts
    std::int64_t detail = 0;     // of the first one, in PageLanes::texts
    std::int64_t bytes = 0;      // moved
};
struct PageLane {
    std::string group;  // a line above the first lane of it; may be empty
    std::string name;
    std::vector<PageSlice> slices;  // in order, none overlaps the next
};
struct PageLanes {
    std::string unit;  // "operations": what slices are called
    std::vector<Category> categories;
    std::vector<PageLane> lanes;
    Texts texts;
    std::int64_t resolution_ns = 0;  // of DrawnLanes
};
inline constexpr std::int64_t kMostDrawnSlices = 40'000;  // of a page: some 2 MB

// FLOPs per second over FLOPs per byte, both axes logarithmic.
struct RooflineChart {
    struct Roof {
        std::string name;
        double per_second = 0;  // FLOPs; of memory: bytes
        bool memory = false;
    };
    struct Point {
        std::string name, text, group;  // text: what is said of it; group: what its colour stands for
        double flops = 0, bytes = 0, seconds = 0;
        Color color = Color::kBlue;
    };
    std::vector<Roof> roofs;
    std::vector<Point> points;  // with FLOPs, bytes and time
};

class Page {
  public:
    Page(std::string_view title, std::string_view facts, const Interval& time_ns);  // all times are within it

    void notes(const std::vector<std::string>& lines);  // what makes the numbers less than the whole truth
    void heading(std::string_view text, std::string_view below = "");
    void bar(const Bar& bar);  // with a legend that says the numbers
    void table(const Table& table);
    void lanes(const PageLanes& lanes);
    void memory(const MemoryTrack& track);  // at most kMostMemoryPoints of it
    void roofline(const RooflineChart& chart);

    std::string html() const;

  private:
    Json data_;
};

}  // namespace oomb::timeline
