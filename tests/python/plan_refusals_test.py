"""What oomb-plan refuses, sub-command by sub-command and flag by flag: one line that names the flag, exit code 2, no
output, at once."""

import json
import resource
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/smollm2-135m.json"
PROFILE = json.loads((ROOT / "hardware/h200_sxm.json").read_text())

COMMANDS = ["", "fit", "best", "max-context", "sweep", "timeline"]
MOST_SECONDS = 2.0  # of processor time, so that a busy machine fails nothing

NO_NUMBERS = ["", "-1", "1e30", "1.5", "nan", "inf", "0x10", " 1", "1 ", "many", "-9223372036854775809",
              "9223372036854775808", "99999999999999999999", "9" * 4000]
TOKENS = [*NO_NUMBERS, "0", "-4K", "K", "4k", "4KiB", "12Q", "2G", "9223372036854775807", "9007199254740992K",
          "8796093022208M", "1025M"]
BUDGETS = [*NO_NUMBERS, "0", "0GiB", "-1GiB", "GiB", "139", "139G", "139gib", "1.5TiB", "8388608TiB", "1KiB",
           "99999999999999999999GiB"]
WORDS = ["", "other", "0", "-1", "nan", "x y", "w" * 4000]
VALUES = {
    **dict.fromkeys(["--context", "--chunk", "--page-tokens", "--window", "--logit-tile"], TOKENS),
    **dict.fromkeys(["--gpu-memory", "--host-memory"], BUDGETS),
    **dict.fromkeys(["--hbm-pages", "--kept-pages", "--held-chunks"], [*NO_NUMBERS, "4K", "0GiB"]),
    "--top-k": [*NO_NUMBERS, "0", "4K", "1000000"],
    **dict.fromkeys(["--attention", "--offload", "--keep", "--device", "--dtype", "--gradient-dtype",
                     "--master-weights", "--optimizer-states"], WORDS),
    "--hardware": ["", "h300", "H200 SXM", "h200_sxm,h100_sxm", "w" * 4000],
}
# What a flag needs beside it to have an effect at all.
BESIDE = {"--hbm-pages": ["--offload", "host"], "--kept-pages": ["--keep", "o"],
          "--top-k": ["--attention", "topk"]}


@pytest.fixture
def plan(program):
    def call(*arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([program("oomb-plan"), *map(str, arguments)], capture_output=True, text=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        result.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return result

    return call


def check_refused(result, *names, code=2):
    told = f"{str(result.args[1:])[:400]}: exit {result.returncode}, {result.seconds:.2f} s, {result.stdout[:200]!r}, {result.stderr[:400]!r}"
    assert result.returncode == code, told
    assert result.stdout == "", told
    assert result.stderr.startswith("oomb-plan") and result.stderr.count("\n") == 1, told
    assert all(name in result.stderr for name in names), told
    assert result.seconds < MOST_SECONDS, told


def arguments_of(command, *flags):
    """A call that is right but for `flags`."""
    context = [] if command == "max-context" or "--context" in flags else ["--context", "32K"]
    return [*([command] if command else []), *([] if "--model" in flags else ["--model", MODEL]), *context, *flags]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", VALUES)
def test_values_that_make_no_sense(plan, command, flag):
    if command == "max-context" and flag == "--context":
        return check_refused(plan(*arguments_of(command), "--context", "4K"), "--context is no flag")
    for value in VALUES[flag]:
        for spelling in ([flag, value], [f"{flag}={value}"]):
            check_refused(plan(*arguments_of(command, *spelling if flag != "--context" else [flag, value]),
                               *BESIDE.get(flag, [])), flag)


@pytest.mark.parametrize("command", COMMANDS)
def test_words_that_are_no_flags(plan, command):
    def refused(*words, says):
        check_refused(plan(*arguments_of(command, *words)), *says)

    refused("--offloat", "host", says=["--offloat is no flag", "did you mean --offload?"])
    refused("--chunks=4K", says=["--chunks is no flag", "did you mean --chunk?"])
    refused("-chunk", "4K", says=["-chunk is no flag", "did you mean --chunk?"])
    refused("--zebra", says=["--zebra is no flag"])
    refused("--", says=["-- is no flag"])
    refused("stray", says=['"stray"', "belongs to no flag"])
    refused("--chunk", says=["--chunk needs a value, nothing follows", "TOKENS"])
    refused("--chunk", "--window", "16K", says=["--chunk needs a value, --window follows"])
    refused("--chunk", "4K", "--chunk", "8K", says=["--chunk is given twice", '"4K"', '"8K"'])
    refused("--deterministic=3", says=["--deterministic takes no value", '"3"'])
    refused("--deterministic", "--deterministic", says=["--deterministic is given twice"])
    output = "--html" if command == "timeline" else "--json"
    refused(output, "", says=[f"{output} needs a value", 'found ""'])
    refused(f"{output}=", says=[f"{output} needs a value", 'found ""'])


def test_absent_flags_and_commands(plan):
    for typed, meant in (("bets", "best"), ("sweeep", "sweep"), ("max_context", "max-context"), ("Fit", "fit")):
        check_refused(plan(typed, "--model", MODEL, "--context", "4K"), f'"{typed}"', f"did you mean {meant}?")
    check_refused(plan("forecast"), '"forecast"', "fit, best, max-context, sweep, timeline, replay, policies, locality, calibrate")
    check_refused(plan(), "--model is required")
    check_refused(plan("best", "--model", MODEL), "--context is required")
    check_refused(plan("fit", "best", "--model", MODEL), '"best"')
    check_refused(plan("timeline", "--step", "first", "--from", "t"), "--step", '"first"', "whole number")
    check_refused(plan("timeline", "--step", "99999999999999999999", "--from", "t"), "--step")


@pytest.mark.parametrize("flag, value, meant", [
    ("--context", "128k", "128K"), ("--context", "4KiB", "4K"), ("--gpu-memory", "80G", "80GiB"),
    ("--gpu-memory", "80gb", "80GB"), ("--offload", "hots", "host"), ("--attention", "TopK", "topk"),
    ("--hardware", "h200", "h200_sxm"), ("--optimizer-states", "hmb", "hbm"),
])
def test_what_was_probably_meant(plan, flag, value, meant):
    check_refused(plan(*arguments_of("", flag, value)), flag, f'"{value}"', f"did you mean {meant}?")


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_that_take_each_other_away(plan, command):
    def refused(*flags):
        check_refused(plan(*arguments_of(command, *flags)), *[flag for flag in flags if flag.startswith("--")])

    refused("--keep", "none", "--kept-pages", "5")
    refused("--keep", "none", "--kept-pages", "auto")
    refused("--keep", "all", "--kept-pages", "5")
    refused("--no-optimizer", "--master-weights", "remainder")
    refused("--no-optimizer", "--optimizer-states", "host")
    refused("--no-optimizer", "--optimizer-states", "hbm")
    refused("--offload", "none", "--hbm-pages", "7")
    refused("--keep", "xo", "--held-chunks", "2")
    refused("--dtype", "fp32", "--master-weights", "remainder")
    refused("--dtype", "fp32", "--gradient-dtype", "bf16")
    refused("--top-k", "4")
    refused("--device", "cpu", "--hardware", "h200_sxm")
    if command in ("", "fit"):
        refused("--kept-pages", "5")
        refused("--device", "cpu", "--exact")
    if command == "best":
        refused("--dtype", "fp32", "--search-types")


def test_what_is_kept_may_be_left_to_a_search(plan):
    """Sub-commands that set --keep themselves take a number of pages for it."""
    for command in ("best", "max-context"):
        result = plan(*arguments_of(command, "--kept-pages", "30", "--chunk", "4K", "--logit-tile", "4K"))
        assert result.returncode == 0, result.stderr


def test_a_mode_that_the_flags_contradict_is_left_out(plan):
    result = plan(*arguments_of("max-context", "--held-chunks", "1", "--chunk", "64K", "--window", "64K"))
    assert result.returncode == 0 and "lean" in result.stdout and "all kept" not in result.stdout, result.stderr


@pytest.mark.parametrize("flags, remark", [
    (["--offload", "host", "--hbm-pages", "9223372036854775807"], "--hbm-pages 9223372036854775807: there are 7,680"),
    (["--keep", "o", "--kept-pages", "100000"], "--kept-pages 100000: there are 210 pages"),
    (["--held-chunks", "500"], "--held-chunks 500: there are 8 chunks"),
    (["--attention", "topk", "--top-k", "128", "--context", "6K"], "--top-k 128: there are 32 pages"),
])
def test_numbers_beyond_what_there_is_count_as_all(plan, flags, remark):
    result = plan(*arguments_of("fit", *flags))
    assert result.returncode == 0 and f"note: {remark}" in result.stderr, result.stderr
    assert result.stderr.count("note: ") == 1
    assert "9,223,372,036,854,775,807" not in result.stdout


def all_profiles():
    """Broken profiles, by what is wrong with them, and what the message is to name."""
    def changed(*path, value):
        profile = json.loads(json.dumps(PROFILE))
        inner = profile
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return json.dumps(profile)

    def without(key):
        return json.dumps({name: value for name, value in PROFILE.items() if name != key})

    for key in PROFILE:
        if key not in ("measured", "peak") and not key.endswith("_deterministic"):  # these are optional
            yield f"no {key}", without(key), key
    for key, value in PROFILE.items():
        numbers = {"bytes", "gb_per_s", "microseconds"} & value.keys() if isinstance(value, dict) else ()
        for number in numbers:
            for wrong in (-1, "many", None, [], 1e300, *((0,) if number != "microseconds" else ())):
                yield f"{key} {wrong}", changed(key, number, value=wrong), key
    for wrong in (0, -1, "fast", 1e300):
        yield f"gemm {wrong}", changed("gemm", "bf16", "tflops", value=wrong), "gemm"
    yield "NaN", changed("launch", "microseconds", value=float("nan")), ""
    yield "another version", changed("version", value=99), "version"
    yield "another format", changed("format", value="oomb-plan"), "format"
    yield "an unknown key", changed("hbm_speed", value=1), "hbm_speed"
    text = json.dumps(PROFILE)
    yield "cut off", text[:len(text) // 2], ""
    yield "empty", "", ""
    yield "no object", "[]", ""
    yield "deep", "[" * 100_000, ""


@pytest.mark.parametrize("command", COMMANDS)
def test_profiles_that_cannot_be(plan, command, tmp_path):
    """The file is at fault, not the call: exit code 1."""
    path = tmp_path / "profile.json"
    for what, text, named in all_profiles():
        path.write_text(text)
        result = plan(*arguments_of(command, "--hardware", path))
        check_refused(result, str(path), named, code=1)
    check_refused(plan(*arguments_of(command, "--hardware", tmp_path)), str(tmp_path), code=1)


def test_a_profile_without_memory_is_no_budget(plan, tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({**PROFILE, "gpu_memory": {"bytes": 1, "source": "nobody"}}))
    check_refused(plan(*arguments_of("", "--hardware", path)), str(path), "gpu_memory", "1 byte", "--gpu-memory")
    assert plan(*arguments_of("", "--hardware", path, "--gpu-memory", "80GiB")).returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_too_large_a_run_does_not_fit(plan, command):
    """The largest sizes that are allowed: no overflow, and an answer in two seconds."""
    largest = ["--chunk", "1024M", "--window", "1024M", "--logit-tile", "1024M", "--dtype", "bf16"]
    context = [] if command == "max-context" else ["--context", "1024M"]
    for more in ([], ["--offload", "host", "--keep", "xo"], ["--gpu-memory", "1MiB", "--host-memory", "1MiB"]):
        result = plan(*([command] if command else []), "--model", MODEL, *context, *largest, *more)
        assert result.returncode == 3, result.stderr
        assert result.seconds < MOST_SECONDS
        assert not any(f"{sign}{digit}" in result.stdout + result.stderr for sign in (" -", " inf", "nan") for digit in
                       "0123456789"), result.stdout
        assert "short" in result.stderr or "nothing fits" in result.stderr, result.stderr
