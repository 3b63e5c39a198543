// Pages that lie side by side on both sides travel in one copy: how many a step has of them.
#include <doctest/doctest.h>

#include "runtime/issue/issuer.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

class Pieces : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation issued) override {
        if (!is_page_copy(issued.operation.id.kind)) {
            return;
        }
        for (const paging::Grant& grant : issued.grants) {
            paging::PageCopy next{-1, -1};
            for (const paging::PageCopy& copy : grant.to_hbm.empty() ? grant.to_host : grant.to_hbm) {
                pages += 1;
                pieces += copy.hbm_frame == next.hbm_frame && copy.host_frame == next.host_frame ? 0 : 1;
                next = {copy.hbm_frame + 1, copy.host_frame + 1};
            }
        }
    }
    std::int64_t pages = 0, pieces = 0;
};

}  // namespace

// A chunk's pages of a layer are born together, so on the host no piece is longer than a chunk's 32 pages. Requests
// name whole chunks; where frames are given out in order, too, a chunk's pages travel in one piece, in two where the
// frames that make room end within it. Also in later steps, which find the frames as the first one left them.
TEST_CASE("neighbours in the text travel together, in every step") {
    RandomStep step = RandomSteps(5, {.layers = 3}).next();
    step.run = {};
    step.run.device = DeviceKind::kCuda;
    step.run.page_tokens = 16;
    step.run.chunk_tokens = 32 * 16;
    step.run.window_tokens = 2 * step.run.chunk_tokens;
    step.run.context_tokens = 16 * step.run.chunk_tokens;
    step.run.offload = Offload::kHost;
    step.run.hbm_pages.mode = HbmPages::Mode::kRing;
    step.run.optimizer = false;
    const schedule::Plan plan = schedule::make_plan(step.model, step.run);
    const schedule::StepShape shape(plan.model, plan.run);
    Pieces pieces;
    issue::Issuer issuer(plan, pieces);
    for (int number = 0; number < 3; ++number) {
        pieces.pages = pieces.pieces = 0;
        schedule::SequenceGenerator(shape, 0, 1, issuer).generate();
        CAPTURE(number);
        REQUIRE(pieces.pages > 10'000);
        CHECK(32 * pieces.pieces <= 2 * pieces.pages);
    }
}

}  // namespace oomb::testing
