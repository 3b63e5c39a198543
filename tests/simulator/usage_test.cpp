// Wrong usage: exit code 2, one line that names the flag, nothing on standard output.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

void check_refused(const std::string& flags, const std::string& named) {
    const PlanCall call = call_plan(words("--model " + model_file("smollm2-135m") + " " + flags));
    CAPTURE(flags);
    CAPTURE(call.err);
    CHECK(call.code == 2);
    CHECK(call.out.empty());
    CHECK(call.err.find(named) != std::string::npos);
    CHECK(call.err.find("oomb-plan --help") != std::string::npos);
    CHECK(std::count(call.err.begin(), call.err.end(), '\n') == 1);
}

}  // namespace

TEST_CASE("flags that are absent, unknown, given twice or without a value") {
    check_refused("", "--context");
    check_refused("--context 4K --no-such-flag", "--no-such-flag");
    check_refused("--context 4K stray", "stray");
    check_refused("--context", "--context");
    check_refused("--context 4K --context 8K", "--context");
    check_refused("--context 4K --no-optimizer=maybe", "--no-optimizer");
    CHECK(call_plan({"--context", "4K"}).code == 2);
    CHECK(call_plan({}).code == 2);
}

TEST_CASE("sizes that make no sense") {
    for (const std::string flag : {"--context", "--chunk", "--page-tokens", "--window", "--logit-tile"}) {
        for (const std::string value : {"0", "-1", "-4K", "1e30", "1.5K", "K", "4k", "4KiB", "99999999999999999999",
                                        "9223372036854775807", "9007199254740992K", "2G", "0x10", "nan"}) {
            check_refused((flag == "--context" ? "" : "--context 4K ") + flag + " " + value, flag);
        }
    }
    for (const std::string flag : {"--gpu-memory", "--host-memory"}) {
        for (const std::string value : {"0", "0GiB", "-1GiB", "1e30", "lots", "GiB", "139", "139G", "139gib", "1.5TiB",
                                        "9223372036854775808", "8388608TiB"}) {
            check_refused("--context 4K " + flag + " " + value, flag);
        }
    }
    for (const std::string value : {"-1", "many", "1.5", "4K", "99999999999999999999", "rings"}) {
        check_refused("--context 4K --offload host --hbm-pages " + value, "--hbm-pages");
    }
}

TEST_CASE("a forgotten unit is named as such") {
    check_refused("--context 4K --gpu-memory 139", "give the unit, such as 139GiB");
}

TEST_CASE("words that are none of those allowed") {
    for (const std::string flag : {"--attention", "--offload", "--keep", "--device", "--dtype"}) {
        check_refused("--context 4K " + flag + " other", flag + ": found \"other\", allowed is ");
    }
    check_refused("--context 4K --dtype fp16", "--dtype");
}

TEST_CASE("flags that contradict one another") {
    check_refused("--context 4K --chunk 200", "--chunk");
    check_refused("--context 4K --window 200", "--window");
    check_refused("--context 4K --hbm-pages ring", "--offload host");
    check_refused("--context 1024M --chunk 128", "--chunk");
}

TEST_CASE("the largest context that is allowed is planned without overflow") {
    const PlanCall call =
        call_plan(words("--context 1024M --chunk 1024M --window 1024M --logit-tile 1024M --dtype fp64 "
                        "--device cuda --keep xo --offload host --model " +
                        model_file("llama-3.1-8b")));
    CHECK(call.code == 3);
    for (std::size_t at = call.out.find(" -"); at != std::string::npos; at = call.out.find(" -", at + 1)) {
        CHECK_FALSE((call.out[at + 2] >= '0' && call.out[at + 2] <= '9'));
    }
}

}  // namespace oomb::test
