"""What each exit code means, and what is said with it."""

import json
import subprocess
import sys

import pytest

EXPECT = """\
expect:
  - {{that: iteration_time.p50 <= {0}}}
  - {{that: iteration_time.p95 <= {1}, otherwise: warn}}
"""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["run", "tiny.yaml", "--set", "run.sed=1"], 2, "run.seed"),
        (["run", "tiny.yaml", "--variant", "fast"], 2, "fast"),
        (["run", "tiny.yaml", "--set", "workload.trace=foretrace:gtp"], 2, "'foretrace:gpt'"),
        (["run"], 2, "Missing argument"),
        (["compare", "nowhere"], 2, "nowhere"),
        (["compare", "tiny.yaml", "--fail-if", "iteration_time.p50 is bad"], 2, "--fail-if"),
        (["report", "nowhere"], 2, "no saved run"),
        (["catalog", "gpus"], 2, "'gpu'"),
        (["catalog", "gpu", "a100"], 2, "a100-sxm4-80g"),
        (["trace", "info", "nowhere.json"], 2, "nowhere.json"),
        (["trace", "capture", "--steps", "0", "--", "python", "x.py"], 2, "'--steps'"),
        (["trace", "capture", "--warm-up", "-1", "--", "python", "x.py"], 2, "'--warm-up'"),
        (["trace", "capture", "--untraced", "-1", "--", "python", "x.py"], 2, "'--untraced'"),
        (["validate", "nowhere.yaml"], 2, "nowhere.yaml"),
    ],
)
def test_a_wrong_request_is_exit_2_and_says_what(cli, words, code, says):
    left, out, err = cli(*words)
    assert left == code
    assert says in err
    assert out == ""


def test_a_warm_up_that_leaves_nothing_to_count_is_exit_2(cli):
    left, _, err = cli("run", "tiny.yaml", "--set", "workload.iterations.warm_up=8")
    assert (left, err.splitlines()) == (
        2,
        [
            "error all 8 iterations of the run are warm-up (8), so none is counted; write a "
            "shorter warm_up",
            "  --set:1:29  workload.iterations",
        ],
    )


def test_a_run_that_cannot_finish_is_exit_3(cli):
    """The only GPU is down from the start: its ops wait for ever."""
    down = "cluster.override.node0.gpu0.down=true"
    code, out, err = cli("run", "tiny.yaml", "--out", "down", "--set", down)
    assert code == 3
    assert out == ""
    assert err.count("error ") == 1


def test_missing_hardware_is_exit_4(cli, monkeypatch):
    from foretrace.scenarios.studies.run import run
    from foretrace.sim.errors import HardwareUnavailable

    def absent(*_, **__):
        raise HardwareUnavailable("node0.gpu0: no CUDA device; bind a recording")

    monkeypatch.setattr(run, "study", absent)
    code, _, err = cli("run", "tiny.yaml", "--out", "absent", "--no-cache")
    assert (code, err) == (4, "error node0.gpu0: no CUDA device; bind a recording\n")


def test_our_own_fault_is_exit_1_with_all_there_is(cli, monkeypatch):
    from foretrace.scenarios.studies.run import run

    monkeypatch.setattr(run, "study", lambda *_, **__: 1 / 0)
    code, _, err = cli("run", "tiny.yaml", "--out", "fault", "--no-cache")
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "bug in foretrace" in err


def test_an_interrupt_is_exit_130(cli, monkeypatch):
    from foretrace.scenarios.studies.run import run

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "study", interrupted)
    assert cli("run", "tiny.yaml", "--out", "interrupted", "--no-cache")[0] == 130


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tiny.yaml", "--out"],
        ["trace", "import", "rank0.json", "--out"],
        ["trace", "export", "rank0.json", "--format", "chakra", "--out"],
        ["hil", "plan", "--op", "copy:h2h uint8[8]", "--out"],
        ["schema", "-o"],
        ["doctor", "--bundle"],
        ["init"],
    ],
    ids=" ".join,
)
def test_a_place_that_cannot_be_written_is_exit_2_and_named(cli, folder, words):
    (folder / "file").write_text("in the way")
    code, _, err = cli(*words, "file/x")
    assert code == 2
    assert "file" in err
    assert "; " in err.splitlines()[-1]


def test_a_full_disk_is_exit_2(cli, monkeypatch):
    from foretrace.scenarios.studies.run import run

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "study", full)
    code, _, err = cli("run", "tiny.yaml", "--out", "fault", "--no-cache")
    assert (code, err.splitlines()[-1]) == (
        2,
        "error disk: No space left on device; give another path, or fix this one",
    )


@pytest.fixture
def expecting(folder, described):
    """The scenario with two limits; its file."""

    def write(name, *limits):
        (folder / f"{name}.yaml").write_text(described + EXPECT.format(*limits))
        return f"{name}.yaml"

    return write


def test_a_missed_expectation_is_exit_5(cli, expecting):
    file = expecting("missed", "1 us", "1 s")
    code, out, _ = cli("run", file, "--out", "missed")
    assert code == 5
    assert "FAIL  iteration time" in out
    assert "Not met: iteration_time.p50 <= 1 us" in out


def test_one_that_only_a_variant_misses_is_exit_5_and_says_which(cli, expecting, saved):
    points = json.loads((saved("runs") / "summary.json").read_text())["points"]
    values = [points[n]["metrics"]["iteration_time.p50"]["value"] for n in ("base", "slow")]
    limit = f"{sum(values) / 2 * 1e6:.3f} us"
    code, out, _ = cli("run", expecting("between", limit, "1 s"), "--out", "between")
    assert code == 5
    assert f"Not met by slow: iteration_time.p50 <= {limit}" in out
    assert "Not met:" not in out


def test_one_that_is_to_warn_does_not_fail(cli, expecting):
    code, out, _ = cli("run", expecting("warned", "1 s", "1 us"), "--out", "warned")
    assert code == 0
    assert "warn  iteration time" in out


def test_met_expectations_pass(cli, expecting):
    code, out, _ = cli("run", expecting("passed", "1 s", "1 s"), "--out", "passed")
    assert code == 0
    assert "pass  iteration time" in out


def test_two_conditions_on_one_number_are_both_kept(cli, folder, described):
    text = described + (
        "expect:\n  - {that: iteration_time.p50 <= 1 us}\n  - {that: iteration_time.p50 < 1 s}\n"
    )
    (folder / "twice.yaml").write_text(text)
    code, out, _ = cli("run", "twice.yaml", "--out", "twice", "--json")
    value = json.loads(out)["points"]["base"]["metrics"]["iteration_time.p50"]
    assert (code, value["expected"], value["met"]) == (5, "<= 1 us; < 1 s", False)


def test_a_command_that_is_done_says_no_more():
    """DuckDB complained of a hundred objects that nobody had looked for at the end."""
    words = [sys.executable, "-m", "foretrace", "trace", "info", "foretrace:gpt"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
