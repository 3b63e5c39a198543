// Random programs: waits and engine order together order every pair of operations that conflict, and no wait is idle.
#include <doctest/doctest.h>

#include <random>

#include "tests/issue/hazard_case.hpp"

namespace oomb::testing {
namespace {

// A use of bytes, for the brute-force reader: buffers that share bytes have one number.
struct ByteUse {
    int buffer = 0;
    bool writes = false;
};

struct Program {
    HappensBefore order;
    std::vector<std::vector<ByteUse>> uses;  // by operation
};

// kNormed and kQkv share bytes and are alive in turn; tokens have two slots; frames are free for all.
class RandomProgram {
  public:
    explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

    Program make(int operations) {
        Program program;
        for (int i = 0; i < operations; ++i) {
            regions_.clear();
            frames_.clear();
            uses_.clear();
            add_random_uses();
            program.order.add(tracker_.operation(static_cast<Engine>(random_() % engines_), regions_, frames_));
            program.uses.push_back(uses_);
        }
        return program;
    }

  private:
    void add_random_uses() {
        if (random_() % 2 == 0) {
            use_shared();
        }
        for (std::int32_t slot = 0; slot < 2; ++slot) {
            if (random_() % 4 == 0) {
                const Access access = random_access();
                regions_.push_back({RegionName::kTokens, slot, access});
                uses_.push_back({1 + slot, access == Access::kWrite});
            }
        }
        const std::uint64_t frames = random_() % 3;
        for (std::uint64_t i = 0; i < frames; ++i) {
            const auto tier = static_cast<Tier>(random_() % 2);
            const auto frame = static_cast<std::int32_t>(random_() % 4);
            const Access access = random_access();
            frames_.push_back({tier, frame, access});
            uses_.push_back({3 + 4 * static_cast<int>(tier) + frame, access == Access::kWrite});
        }
    }

    // Begins the bytes anew under either name, or goes on with the name that is alive.
    void use_shared() {
        const bool begin = !begun_ || random_() % 3 == 0;
        if (begin) {
            alive_ = random_() % 2 == 0 ? RegionName::kNormed : RegionName::kQkv;
            begun_ = true;
        }
        const Access access = begin ? Access::kWrite : random_access();
        regions_.push_back({alive_, 0, access, begin, false});
        uses_.push_back({0, access == Access::kWrite});
    }
    Access random_access() { return random_() % 3 == 0 ? Access::kWrite : Access::kRead; }

    std::mt19937_64 random_;
    std::uint64_t engines_ = 2 + random_() % (kEngines - 1);
    TrackerCase tracker_;
    RegionName alive_ = RegionName::kNormed;
    bool begun_ = false;
    std::vector<schedule::RegionUse> regions_;
    std::vector<TrackerCase::FrameUse> frames_;
    std::vector<ByteUse> uses_;
};

bool conflict(const std::vector<ByteUse>& a, const std::vector<ByteUse>& b) {
    for (const ByteUse& x : a) {
        for (const ByteUse& y : b) {
            if (x.buffer == y.buffer && (x.writes || y.writes)) {
                return true;
            }
        }
    }
    return false;
}

TEST_CASE("every conflict is ordered and every wait is needed") {
    std::int64_t conflicts = 0, waits = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const Program program = RandomProgram(seed).make(120);
        for (std::size_t later = 0; later < program.uses.size(); ++later) {
            for (std::size_t earlier = 0; earlier < later; ++earlier) {
                if (conflict(program.uses[earlier], program.uses[later])) {
                    CHECK(program.order.ordered(earlier, later));
                    ++conflicts;
                }
            }
            const Tracked& operation = program.order.operations()[later];
            for (int engine = 0; engine < kEngines; ++engine) {
                if (operation.waits[engine] > 0) {
                    CHECK(engine != static_cast<int>(operation.engine));
                    CHECK_FALSE(program.order.redundant(later, engine));
                    ++waits;
                }
            }
        }
    }
    CHECK(conflicts > 10000);
    CHECK(waits > 1000);
}

}  // namespace
}  // namespace oomb::testing
