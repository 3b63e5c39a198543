// Pages that are named late: what a prefetch brings, and when gradient pages are written, held to their definitions.
#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <set>

#include "runtime/issue/listed_pages.hpp"
#include "tests/issue/random_lists.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using issue::ListedPages;
using schedule::Kind;
using schedule::Operation;
using schedule::Plan;
using schedule::StepShape;

using Pages = std::set<std::int32_t>;

// Steps that have lists and whose pages move.
RandomStep next_listed(RandomSteps& random) {
    for (;;) {
        RandomStep step = random.next();
        if (StepShape(step.model, step.run).selects() && step.run.offload == Offload::kHost) {
            return step;
        }
    }
}

RandomSteps random_steps(std::uint64_t seed) {
    return RandomSteps(seed, {.chunks = 9, .pages_per_chunk = 16, .top_k = true});
}

bool is_listed(const Operation& operation) {
    return !operation.requests.empty() && operation.requests[0].listed;
}

Pages pages_of(const schedule::PageRequest& request) {
    Pages pages;
    for (std::int64_t i = 0; i < request.pages.count; ++i) {
        pages.insert(static_cast<std::int32_t>(request.pages.page(i)));
    }
    REQUIRE(std::ssize(pages) == request.pages.count);
    return pages;
}

// Walks a step's listed operations as the issuer does; `see` gets each with its pages.
template <class See>
void walk(const RandomStep& step, const Plan& plan, RandomLists& source, See see) {
    ListedPages listed(plan, &source);
    for (Operation operation : operations_of(step.model, plan.run)) {
        if (operation.id.kind == Kind::kStoreLists) {
            listed.stored(1);
        } else if (operation.id.kind == Kind::kLoadTokens) {
            listed.begin_chunk(operation.rows);
        }
        if (is_listed(operation)) {
            const auto lists = listed.name(operation);
            CHECK(std::ssize(lists->pages) == operation.requests[0].pages.count);
            see(operation);
        }
    }
}

// What the lists of a chunk's query pages name, of which one names how often.
std::map<std::int32_t, int> named(const StepShape& shape, RandomLists& source, std::int64_t layer, std::int64_t chunk) {
    std::map<std::int32_t, int> times;
    for (const std::int32_t page : source.page_lists(layer, shape.first_page(chunk), shape.pages_of(chunk), 1)) {
        ++times[page];
    }
    return times;
}

TEST_CASE("attention and fetches over lists are of all pages that the lists of their queries name") {
    RandomSteps random = random_steps(11);
    for (int i = 0; i < 60; ++i) {
        const RandomStep step = next_listed(random);
        const Plan plan = schedule::make_plan(step.model, step.run);
        RandomLists source(plan, i);
        walk(step, plan, source, [&](const Operation& operation) {
            if (operation.id.kind == Kind::kPrefetch || operation.id.kind == Kind::kWriteBack) {
                return;
            }
            const std::int64_t page = plan.run.page_tokens;
            const auto lists = source.page_lists(operation.id.layer, operation.first_row / page,
                                                 schedule::divide_up(operation.rows, page), 1);
            CHECK(pages_of(operation.requests[0]) == Pages(lists.begin(), lists.end()));
        });
    }
}

TEST_CASE("a prefetch brings what existing lists name, or what those of the chunk before let expect") {
    RandomSteps random = random_steps(12);
    int exact = 0, expected = 0, cut = 0;
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = next_listed(random);
        const Plan plan = schedule::make_plan(step.model, step.run);
        const StepShape shape(plan.model, plan.run);
        RandomLists source(plan, i);
        walk(step, plan, source, [&](const Operation& operation) {
            if (operation.id.kind != Kind::kPrefetch) {
                return;
            }
            const std::int64_t chunk = operation.first_row / plan.run.chunk_tokens;
            const auto times = named(shape, source, operation.id.layer, chunk);
            const Pages pages = pages_of(operation.requests[0]);
            const std::int64_t bound = operation.requests[0].bound;
            CHECK(std::ssize(pages) <= bound);
            if (chunk == operation.id.chunk) {
                ++exact;
                cut += std::ssize(times) > bound ? 1 : 0;
                CHECK(std::ssize(pages) == std::min(bound, std::ssize(times)));
                CHECK(std::all_of(pages.begin(), pages.end(), [&](std::int32_t page) { return times.contains(page); }));
                return;
            }
            ++expected;
            REQUIRE(chunk + 1 == operation.id.chunk);
            const std::int64_t first_new = shape.first_page(chunk), history = shape.first_page(operation.id.chunk);
            CHECK(std::ssize(pages) == std::min(bound, history - first_new + std::ssize(times)));
            // Nothing that was left out is wanted more than what was taken.
            const auto wanted = [&](std::int32_t page) {
                const auto found = times.find(page);
                return page >= first_new ? 1'000'000 : found == times.end() ? 0 : found->second;
            };
            for (std::int32_t page = 0; page < history; ++page) {
                for (const std::int32_t taken : pages) {
                    CHECK((pages.contains(page) || std::pair(wanted(page), page) < std::pair(wanted(taken), taken)));
                }
            }
        });
    }
    CHECK(exact > 100);
    CHECK(expected > 100);
    CHECK(cut > 10);
}

// Of one layer and chunk: which gradient pages HBM alone holds, and who adds to them later.
TEST_CASE("gradient pages are written after their last group, or where frames run out those needed last") {
    RandomSteps random = random_steps(13);
    std::int64_t once = 0, early = 0;
    for (int i = 0; i < 150; ++i) {
        const RandomStep step = next_listed(random);
        const Plan plan = schedule::make_plan(step.model, step.run);
        const StepShape shape(plan.model, plan.run);
        RandomLists source(plan, i);
        Pages dirty;  // of the layer, in HBM alone
        walk(step, plan, source, [&](const Operation& operation) {
            if (operation.id.kind == Kind::kAttentionBackward) {
                for (const std::int32_t page : pages_of(operation.requests[1])) {
                    if (page * plan.model.layers + operation.id.layer >= plan.resident_pages) {
                        dirty.insert(page);
                    }
                }
            }
            if (operation.id.kind != Kind::kWriteBack) {
                return;
            }
            const std::int64_t page_tokens = plan.run.page_tokens;
            const std::int64_t next_row = operation.first_row + operation.rows;
            const std::int64_t end = shape.first_token(operation.id.chunk) + shape.tokens_of(operation.id.chunk);
            std::map<std::int32_t, std::int64_t> next_use;  // query page of the first later group that names it
            for (std::int64_t row = next_row; row < end; row += shape.pages_per_group() * page_tokens) {
                const std::int64_t rows = std::min(shape.pages_per_group() * page_tokens, end - row);
                for (const std::int32_t page : source.page_lists(operation.id.layer, row / page_tokens,
                                                                 schedule::divide_up(rows, page_tokens), 1)) {
                    next_use.emplace(page, row);
                }
            }
            const Pages written = pages_of(operation.requests[0]);
            std::int64_t last_kept = 0, first_written = std::numeric_limits<std::int64_t>::max();
            for (const std::int32_t page : Pages(dirty)) {
                if (!written.contains(page)) {
                    REQUIRE(next_use.contains(page));
                    last_kept = std::max(last_kept, next_use.at(page));
                    continue;
                }
                dirty.erase(page);
                if (next_use.contains(page)) {
                    ++early;
                    first_written = std::min(first_written, next_use.at(page));
                } else {
                    ++once;
                }
            }
            CHECK(last_kept <= first_written);
            CHECK((next_row < end || dirty.empty()));
        });
    }
    CHECK(once > 1000);
    CHECK(early > 100);
}

}  // namespace
}  // namespace oomb::testing
