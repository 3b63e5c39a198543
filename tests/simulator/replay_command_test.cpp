// oomb-plan replay, called as a user does, on traces that oomb-plan timeline writes.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/relative_error.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {
namespace {

const std::string kShape = "--context 16K --chunk 2K --offload host --hbm-pages ring";

class Traced {
  public:
    // On the default machine, but for what its host takes to hand over an operation.
    explicit Traced(double submit_seconds = default_hardware().submit.seconds,
                    double submit_page_seconds = default_hardware().submit_page.seconds)
        : trace((folder.path() / "run.trace").string()), machine((folder.path() / "machine.json").string()) {
        HardwareProfile profile = default_hardware();
        profile.submit.seconds = submit_seconds;
        profile.submit_page.seconds = submit_page_seconds;
        write_text_file(machine, to_json(profile));
        std::vector<std::string> arguments =
            words("timeline --model " + model_file("smollm2-135m") + " --window 4K " + kShape);
        arguments.insert(arguments.end(), {"--trace", trace, "--hardware", machine});
        REQUIRE(call_plan(arguments).code == 0);
    }
    PlanCall replay(const std::string& flags = "") const {
        std::vector<std::string> arguments{"replay", "--trace", trace};
        const std::vector<std::string> more = words(flags);
        arguments.insert(arguments.end(), more.begin(), more.end());
        return call_plan(arguments);
    }
    Json replay_json(const std::string& flags = "") const {
        const std::string path = (folder.path() / "replay.json").string();
        const PlanCall call = replay(flags + " --hardware " + machine + " --json " + path);
        CAPTURE(call.err);
        REQUIRE(call.code == 0);
        return read_json_file(path);
    }

    TemporaryFolder folder;
    std::string trace, machine;
};

double seconds(const Json& time) {
    return time.at("seconds").at("total").get<double>();
}

}  // namespace

TEST_CASE("replay: a simulated step replays as it is, and a changed one as it is predicted") {
    const Traced traced;
    const Json same = traced.replay_json();
    CHECK(same.at("changed").is_null());
    CHECK(same.at("notes").empty());
    CHECK(same.at("run").get<std::string>().find("--window 4K") != std::string::npos);

    const Json changed = traced.replay_json("--window 8K");
    CHECK(changed.at("changes") == "--window 8K");

    CHECK(seconds(traced.replay_json("--host-to-device 1 --device-to-host 1").at("changed")) >
          2 * seconds(same.at("recorded")));
    const Json shared = traced.replay_json("--copy-turns 1,1000");
    CHECK(shared.at("changes") == "--copy-turns 1,1000");
    CHECK(seconds(shared.at("changed")) > 2 * seconds(same.at("recorded")));
    const Json kept = traced.replay_json("--keep xo --offload none --hbm-pages auto");
    CHECK(seconds(kept.at("changed")) < seconds(same.at("recorded")));
    REQUIRE(kept.at("notes").size() == 1);
    check_contains(kept.at("notes").at(0).get<std::string>(), {"keep_activation", "hardware profile"});

    const PlanCall table = traced.replay("--window 8K");
    check_contains(table.out,
                   {"recorded", "replayed", "error", "changed: --window 8K", "optimizer", "while both copy"});
}

TEST_CASE("replay: as exact as the host is known") {
    struct HostTimes {
        double submit, page;
    };
    for (const auto& [submit, page] : {HostTimes{0, 0}, HostTimes{10e-6, 0}, HostTimes{10e-6, 0.2e-6}}) {
        CAPTURE(submit);
        CAPTURE(page);
        const Traced traced(submit, page);
        const Json same = traced.replay_json();
        // The same flags with other windows, predicted from the same profile.
        const std::string plan = (traced.folder.path() / "plan.json").string();
        std::vector<std::string> fit = words("--model " + model_file("smollm2-135m") + " --window 8K " + kShape);
        fit.insert(fit.end(), {"--json", plan, "--hardware", traced.machine});
        REQUIRE(call_plan(fit).code == 0);
        // A host that takes no time leaves sums of times that are whole nanoseconds, and for other windows lines
        // through these: of some ten thousand operations, off by 0.3 ns each, 30 ns in 0.3 s. When a host was waited
        // for is read off what began late, to within a submission, at the ends of few waits: four submissions are
        // granted, the longest there are: a window's 64 pages of K/V, and as many of gradients.
        const double few = 4 * (submit + 128 * page) / seconds(same.at("recorded"));
        CHECK(std::abs(same.at("error").get<double>()) <= 1e-9 + few);
        CHECK(relative_error(seconds(traced.replay_json("--window 8K").at("changed")),
                             seconds(read_json_file(plan).at("time"))) <= 1e-6 + few);
    }
}

TEST_CASE("replay: what cannot be done is said, with its exit code") {
    const Traced traced;
    struct Bad {
        std::string flags;
        int code;
        std::initializer_list<std::string_view> fragments;
    };
    const Bad cases[] = {
        {"--step 4", 1, {"has no step 4"}},
        {"--host-to-device 0", 2, {"--host-to-device: found 0", "GB/s"}},
        {"--device-to-host -3", 2, {"--device-to-host: found -3"}},
        {"--host-to-device 1e300", 2, {"--host-to-device"}},
        {"--host-to-device nan", 2, {"--host-to-device"}},
        {"--host-to-device fast", 2, {"--host-to-device"}},
        {"--copy-turns 0,1", 2, {"--copy-turns: found 0,1", "ms"}},
        {"--copy-turns 1", 2, {"--copy-turns"}},
        {"--copy-turns 1,nan", 2, {"--copy-turns"}},
        {"--copy-turns 1,slow", 2, {"--copy-turns"}},
        {"--window 5", 2, {"--window"}},
        {"--context 32K", 2, {"--context"}},
        {"--hardware nothing", 2, {"--hardware"}},
        {"--gpu-memory 1GiB", 3, {"does not fit"}},
        {"--trace /nowhere", 2, {"--trace"}},
    };
    for (const Bad& bad : cases) {
        CAPTURE(bad.flags);
        const PlanCall call = traced.replay(bad.flags);
        CHECK(call.code == bad.code);
        check_contains(call.err, bad.fragments);
    }
    CHECK(call_plan({"replay"}).code == 2);
    CHECK(call_plan({"replay", "--trace", "/nowhere"}).code == 1);
    const PlanCall help = call_plan({"replay", "--help"});
    CHECK(help.code == 0);
    check_contains(help.out, {"--trace FILE", "--window TOKENS", "as recorded", "--host-to-device GB/S"});
    CHECK(help.out.find("--model") == std::string::npos);

    std::string text = read_text_file(traced.trace, std::int64_t{1} << 30);
    write_text_file(traced.trace, text.substr(0, text.size() / 2));
    check_contains(traced.replay().err, {"first step", "cut off"});
    const std::size_t at = text.find("\"version\":2");
    write_text_file(traced.trace, text.replace(at, 11, "\"version\":9"));
    const PlanCall foreign = traced.replay();
    CHECK(foreign.code == 1);
    check_contains(foreign.err, {"line 1", "version: found 9"});
}

}  // namespace oomb::test
