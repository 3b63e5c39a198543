#include "simulator/step/shortcut.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/schedule/generator.hpp"

namespace oomb::simulator {

using Over = schedule::Repetition::Over;
using schedule::Engine;
using schedule::Kind;

namespace {

constexpr std::size_t kCaches = 2;  // PageClass::kKv and kKvGradient pass through HBM

bool is_copy(Engine engine) {
    return engine == Engine::kHostToDevice || engine == Engine::kDeviceToHost;
}

// Sums of up to a day in float64.
double slack(double iteration_seconds, double moment) {
    return Shortcut::kSlack * std::abs(iteration_seconds) + 8 * std::numeric_limits<double>::epsilon() * moment;
}

bool same(const Clock::Ran& a, const Clock::Ran& b, double later) {
    const double slip = slack(later, b.begin);
    return a.id.kind == b.id.kind && a.id.phase == b.id.phase && a.engine == b.engine && a.times == b.times &&
           a.bytes == b.bytes && std::abs(b.begin - a.begin - later) <= slip && std::abs(b.seconds - a.seconds) <= slip;
}

}  // namespace

Shortcut::Shortcut(const schedule::Plan& plan, issue::Issuer& issuer, Clock& clock)
    : step_(plan.model, plan.run), plan_(plan), issuer_(issuer), clock_(clock) {
    clock_.log_to(&ran_);
}

void Shortcut::take(const schedule::Operation& operation) {
    std::array<std::int64_t, 2> alive{};
    for (std::size_t i = 0; i < operation.requests.size(); ++i) {
        alive[i] = issuer_.residency(operation.requests[i].pages.page_class).alive_pages();
    }
    if (issuer_.issue(operation, issued_)) {
        clock_.run(issued_);
    }
    for (std::size_t i = 0; i < operation.requests.size(); ++i) {
        const PageSet& pages = operation.requests[i].pages;
        const std::int64_t more = issuer_.residency(pages.page_class).alive_pages() - alive[i];
        if (more != 0) {
            settled_.push_back({more > 0, pages});
            partly_born_ = partly_born_ || std::abs(more) != pages.count;
        }
    }
}

std::int64_t Shortcut::left_out(const schedule::Repetition& repetition) {
    Loop& loop = loops_[static_cast<std::size_t>(repetition.over)];
    if (repetition.done == 0) {
        if (repetition.over == Over::kLayers) {
            ran_.clear();
            settled_.clear();
            partly_born_ = false;
        }
        loop.begin(mark());
        return 0;
    }
    loop.marks.push_back(mark());
    compare_last(loop);
    if (repetition.alike == 0 || loop.steady == 0 || partly_born_) {
        return 0;
    }
    const std::int64_t slots = slots_in_use(loop);
    const std::size_t by_cache = depth(loop), needed = std::max(by_cache, static_cast<std::size_t>(slots));
    if (by_cache == 0 || slots == 0 || loop.steady < needed || !copies_apart(loop, needed)) {
        return 0;
    }
    const std::int64_t times = alike(repetition) / slots * slots;  // the next layer finds its own slot
    const std::vector<Settled> settled = lasting(loop);
    const Shift shift =
        repetition.over == Over::kLayers ? Shift{repetition.step, 0} : Shift{0, step_.pages_per_window()};
    if (times == 0 || !has_room(settled, times)) {
        return 0;
    }
    leave_out(loop, times);
    move_pages(loop, settled, shift, times);
    loop.begin(mark());
    return times;
}

Shortcut::Mark Shortcut::mark() const {
    Mark mark{ran_.size(), settled_.size(), clock_.place(), {}, {}, {}};
    for (std::size_t cache = 0; cache < kCaches; ++cache) {
        const paging::Residency& residency = issuer_.residency(static_cast<PageClass>(cache));
        mark.requests[cache] = residency.requests();
        mark.oldest_use[cache] = residency.oldest_use();
        mark.cached[cache] = residency.cached();
    }
    return mark;
}

// The last iteration beside the one before it.
void Shortcut::compare_last(Loop& loop) const {
    const std::size_t n = loop.marks.size();
    if (n < 3) {
        return;
    }
    const Mark &a = loop.marks[n - 3], &b = loop.marks[n - 2], &c = loop.marks[n - 1];
    const std::size_t steady = loop.steady;
    loop.steady = 0;
    if (c.ran - b.ran != b.ran - a.ran || c.settled - b.settled != b.settled - a.settled || c.ran == b.ran) {
        return;
    }
    const double later = ran_[b.ran].begin - ran_[a.ran].begin;
    if (c.place.submitted - b.place.submitted > later + slack(later, ran_[b.ran].begin) &&
        !host_is_ahead(b, c, later)) {
        return;  // the engines are about to catch up with the host
    }
    for (std::size_t i = 0; i < c.ran - b.ran; ++i) {
        if (!same(ran_[a.ran + i], ran_[b.ran + i], later)) {
            return;
        }
    }
    const bool as_before = std::abs(later - loop.seconds) <= slack(later, ran_[b.ran].begin);
    loop.steady = as_before ? steady + 1 : 1;
    loop.seconds = later;
}

// The engines will not catch up with the host, though it did less than they since `b`: it was held up by operations
// further back than those it may be ahead of. All that was taken from `b` to `c` it had submitted before the first
// began; it works for an iteration no longer than the engines, which take `later`; and where it may be no further
// ahead, that is more than what lies between the begin of an iteration and its last end.
bool Shortcut::host_is_ahead(const Mark& b, const Mark& c, double later) const {
    double begin = INFINITY, end = 0.0;
    for (std::size_t i = b.ran; i < c.ran; ++i) {
        begin = std::min(begin, ran_[i].begin);
        end = std::max(end, ran_[i].begin + ran_[i].seconds);
    }
    const auto ahead = kMostInFlight / static_cast<std::int64_t>(c.place.taken - b.place.taken);
    return c.place.submitted <= begin && c.place.host_work - b.place.host_work <= later &&
           static_cast<double>(ahead - 1) * later >= end - begin;
}

// From how many iterations the next one follows; 0: not from this loop alone. The cache has the pages that were used
// last, so it does the same for the next iteration as it did for the last one where both found in it pages of this loop
// only.
std::size_t Shortcut::depth(const Loop& loop) const {
    std::size_t depth = 1;
    const std::size_t last = loop.marks.size() - 1;
    for (std::size_t cache = 0; cache < kCaches; ++cache) {
        const std::uint64_t oldest = loop.marks[last].oldest_use[cache];
        if (issuer_.residency(static_cast<PageClass>(cache)).cache_used() <= loop.marks[last - 1].requests[cache]) {
            continue;
        }
        if (std::min(oldest, loop.marks[last - 1].oldest_use[cache]) <= loop.marks[0].requests[cache]) {
            return 0;
        }
        std::size_t first = last;  // the iteration of the oldest use begins here
        while (oldest <= loop.marks[first].requests[cache]) {
            --first;
        }
        depth = std::max(depth, last - first);
        for (std::size_t i = std::min(first, last - 1); i < last; ++i) {
            if (loop.marks[i].cached[cache] != loop.marks[last].cached[cache]) {
                return 0;
            }
        }
    }
    return depth;
}

// Whether a copy meets one of the other direction decides its rate.
bool Shortcut::copies_apart(const Loop& loop, std::size_t depth) const {
    const Mark &first = loop.marks[loop.marks.size() - 1 - depth], &last = loop.marks.back();
    std::array<bool, schedule::kEngines> used{};
    double begin = INFINITY;
    for (std::size_t i = first.ran; i < last.ran; ++i) {
        const Clock::Ran& ran = ran_[i];
        used[static_cast<std::size_t>(ran.engine)] = true;
        begin = std::min(begin, ran.begin);
    }
    const bool in = used[static_cast<std::size_t>(Engine::kHostToDevice)];
    const bool out = used[static_cast<std::size_t>(Engine::kDeviceToHost)];
    return in == out || clock_.free_at(in ? Engine::kDeviceToHost : Engine::kHostToDevice) <= begin;
}

// What travels to and from kept pages waits in slots, of layer l in slot l modulo their number: 1 where nothing does, 0
// where a slot is used again only in the next chunk, which is farther than this class looks.
std::int64_t Shortcut::slots_in_use(const Loop& loop) const {
    for (std::size_t i = loop.marks[loop.marks.size() - 2].ran; i < ran_.size(); ++i) {
        const Kind kind = ran_[i].id.kind;
        if ((kind == Kind::kKeepActivation || kind == Kind::kLoadActivation) && is_copy(ran_[i].engine)) {
            const std::int64_t slots = schedule::activation_slots(step_);
            return slots < step_.model().layers ? slots : 0;
        }
    }
    return 1;
}

std::int64_t Shortcut::alike(const schedule::Repetition& repetition) const {
    return repetition.over == Over::kLayers ? alike_layers(repetition) : alike_windows(repetition);
}

// K/V pages of a layer, and their gradients, that have their home in HBM, first in time.
std::int64_t Shortcut::resident_pages(std::int64_t layer) const {
    return schedule::divide_up(std::max<std::int64_t>(0, plan_.resident_pages - layer), step_.model().layers);
}

std::int64_t Shortcut::alike_layers(const schedule::Repetition& repetition) const {
    if (repetition.chunk == 0) {
        return 0;  // the first fetches of optimizer states come between its layers
    }
    const std::int64_t used = step_.first_page(repetition.chunk) + step_.pages_of(repetition.chunk);
    const auto homes = [&](std::int64_t layer) {
        const std::int64_t kept = step_.kept_rank(repetition.chunk) * step_.model().layers + layer;
        return std::pair(std::min(used, resident_pages(layer)), kept < plan_.kept_hbm);
    };
    const auto of_last = homes(repetition.layer - repetition.step);
    std::int64_t layers = 0;
    while (layers < repetition.alike && homes(repetition.layer + layers * repetition.step) == of_last) {
        ++layers;
    }
    return layers;
}

std::int64_t Shortcut::alike_windows(const schedule::Repetition& repetition) const {
    const std::int64_t pages = step_.pages_per_window(), resident = resident_pages(repetition.layer);
    if (repetition.done * pages <= resident) {
        return std::min(repetition.alike, resident / pages - repetition.done);
    }
    return (repetition.done - 1) * pages >= resident ? repetition.alike : 0;
}

// Births and deaths of the last iteration, without those that were both.
std::vector<Shortcut::Settled> Shortcut::lasting(const Loop& loop) const {
    std::vector<Settled> list;
    for (std::size_t i = loop.marks[loop.marks.size() - 2].settled; i < settled_.size(); ++i) {
        const Settled& one = settled_[i];
        const auto born = std::find_if(list.begin(), list.end(), [&](const Settled& other) {
            return other.born && !one.born && other.pages.page_class == one.pages.page_class &&
                   other.pages.layer == one.pages.layer && other.pages.first == one.pages.first &&
                   other.pages.count == one.pages.count;
        });
        if (born != list.end()) {
            list.erase(born);
        } else {
            list.push_back(one);
        }
    }
    return list;
}

// Frames for what is born so many times, none of which is in use by a page of the cache.
bool Shortcut::has_room(const std::vector<Settled>& settled, std::int64_t times) const {
    std::array<std::array<std::int64_t, kPageClasses>, kTiers> needed{};
    for (const auto& [born, pages] : settled) {
        const auto page_class = static_cast<std::size_t>(pages.page_class);
        const std::int64_t in_hbm =
            pages.page_class == PageClass::kActivation
                ? (pages.first * step_.model().layers + pages.layer < plan_.kept_hbm ? pages.count : 0)
                : std::clamp<std::int64_t>(resident_pages(pages.layer) - pages.first, 0, pages.count);
        if (born) {
            needed[static_cast<int>(Tier::kHbm)][page_class] += times * in_hbm;
            needed[static_cast<int>(Tier::kHost)][page_class] += times * (pages.count - in_hbm);
        }
    }
    for (int page_class = 0; page_class < kPageClasses; ++page_class) {
        const paging::Residency& residency = issuer_.residency(static_cast<PageClass>(page_class));
        for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
            const paging::FramePool& pool = residency.pool(tier);
            if (needed[static_cast<int>(tier)][page_class] > pool.frames() - pool.in_use()) {
                return false;
            }
        }
    }
    return true;
}

void Shortcut::leave_out(const Loop& loop, std::int64_t times) {
    const std::size_t last = loop.marks.size() - 1;
    for (std::size_t i = loop.marks[last - 1].ran; i < loop.marks[last].ran; ++i) {
        Clock::Ran again = ran_[i];
        again.times *= times;
        operations_left_out_ += again.times;
        clock_.count(again);
        ran_.push_back(again);
    }
    clock_.repeat(loop.marks[0].place, loop.marks[last - 1].place, times, loop.seconds);
}

void Shortcut::move_pages(const Loop& loop, const std::vector<Settled>& settled, const Shift& shift,
                          std::int64_t times) {
    for (const auto& [born, pages] : settled) {
        for (std::int64_t i = 1; i <= times; ++i) {
            PageSet moved = pages;
            moved.layer += static_cast<std::int32_t>(i * shift.layers);
            moved.first += i * shift.pages;
            issuer_.residency(pages.page_class).settle(born, moved);
            settled_.push_back({born, moved});
        }
    }
    for (std::size_t cache = 0; cache < kCaches; ++cache) {
        paging::Residency& residency = issuer_.residency(static_cast<PageClass>(cache));
        if (residency.cache_used() > loop.marks[loop.marks.size() - 2].requests[cache]) {
            residency.rename_cached(times * shift.layers, times * shift.pages);
        }
    }
}

}  // namespace oomb::simulator
