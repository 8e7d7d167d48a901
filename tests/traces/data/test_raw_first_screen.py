"""Numbers of the first screen of four recordings, against pandas over their raw JSON."""

import json
import os
from functools import cache
from pathlib import Path

import pytest
import raw_first_screen
from by_day import only

ROOT = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[4] / "shared" / "data"))
TRACES = ROOT / "kineto-traces"
RECORDINGS = [
    "dlrm-8xV100/kineto/rank*.json.gz",
    "ddp-A100x2/rank0.json.gz",
    "dlrm-A100x8-rank3/control.json.gz",
    "resnet-actckpt-MI300Xx8-rank0/trace.json.gz",
    "resnet50-V100-workers0/run1.json.gz",
]
BY_DAY = only([*RECORDINGS[:2], RECORDINGS[3]], RECORDINGS)
CLOSE = 0.01
US = 1e6
REPORTED = {}  # the report of each recording, made once
BOXES = {"overlapped_communication": "overlapped", "exposed_communication": "exposed_communication"}
KERNELS = {"compute": "compute", "collective": "communication", "copy": "copies"}


@cache
def raw(name):
    if not TRACES.is_dir():
        pytest.skip(f"no recorded traces at {TRACES}; set FORETRACE_DATA")
    return raw_first_screen.first_screen(sorted(TRACES.glob(name)))


@pytest.fixture(
    params=only(RECORDINGS[:2] + RECORDINGS[3:4], RECORDINGS), ids=lambda name: name.split("/")[0]
)
def both(request, cli, tmp_path, monkeypatch):
    """What the raw files say, and what the report does."""
    monkeypatch.chdir(tmp_path)
    said = raw(request.param)
    if request.param not in REPORTED:
        code, out, err = cli("trace", "report", TRACES / request.param, "--json")
        assert code == 0, err
        REPORTED[request.param] = json.loads(out)
    return said, REPORTED[request.param]


def test_kernels_and_what_runs_beside_them_take_as_long_as_the_raw_files_say(both):
    said, told = both
    assert told["seconds"] * US == pytest.approx(said["window"], rel=CLOSE)
    for rank, one in enumerate(said["ranks"]):
        for raw_kind, kind in KERNELS.items():
            took = told["kernels"][kind][rank] * US
            assert took == pytest.approx(one[f"kernels.{raw_kind}"], rel=CLOSE), (rank, kind)
        busy = told["gpu"][rank] * told["seconds"] * US
        assert busy == pytest.approx(one["busy"], rel=CLOSE), rank
        waited = told["boxes"]["waiting"][rank] * US
        assert waited == pytest.approx(one["waiting"], rel=CLOSE), rank


def test_communication_is_exposed_and_overlapped_as_the_raw_files_say(both):
    """A collective ends once, while its kernels end some us apart on the clocks of their GPUs."""
    said, told = both
    for rank, one in enumerate(said["ranks"]):
        apart = said["ends_apart"][rank]
        for raw_name, box in BOXES.items():
            took = told["boxes"][box][rank] * US
            assert took == pytest.approx(one[raw_name], rel=CLOSE, abs=apart), (rank, box)


def test_whoever_arrives_last_at_a_collective_does_so_in_the_raw_files(both):
    said, told = both
    late = told.get("late", {"met": [], "ranks": []})
    assert [met["last"] for met in late["met"]] == said["last"]
    for one in late["ranks"]:
        waited = sum(met["waits"][one["rank"]] for met in late["met"])
        assert waited * US == pytest.approx(said["waited"][one["rank"]], rel=CLOSE)


def test_the_answer_sentence_reports_these_fractions(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = RECORDINGS[1]
    (one,), whole = raw(name)["ranks"], raw(name)["window"]
    _, out, _ = cli("trace", "report", TRACES / name)
    text = " ".join(out.split())
    assert f"exposed communication {100 * one['exposed_communication'] / whole:.0f} %" in text
    assert f"Kernels run for {100 * one['busy'] / whole:.0f} % of it: compute" in text
    assert f"communication {one['kernels.collective'] / 1e3:.1f} ms (its waiting included)" in text


REPLAY = """\
foretrace: 1
name: replay
workload: {{trace: {trace}, missing_ranks: recorded_waits, recorded_on: {{device: a100-sxm4-80g}}}}
cluster:
  nodes: 1
  node: {{gpu: {{model: a100-sxm4-80g, count: 1}}, host: epyc-zen4-vm, nic: loopback-tcp}}
backends: {{"*": {{use: recorded}}}}
run: {{quick: true}}
"""


def test_a_run_of_the_recording_as_it_is_says_the_same(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = RECORDINGS[1]
    (one,), whole = raw(name)["ranks"], raw(name)["window"]
    (tmp_path / "replay.yaml").write_text(REPLAY.format(trace=TRACES / name))
    code, out, err = cli("run", "replay.yaml", "--json")
    assert code == 0, err
    point = json.loads(out)["points"]["base"]
    working = point["metrics"]["gpu.utilization.mean"]["value"]
    assert working == pytest.approx(one["busy"] / whole, rel=CLOSE)
    for raw_name, box in BOXES.items():
        took = 3 * point["activity"][box]["mean"] * US  # of three steps
        assert took == pytest.approx(one[raw_name], rel=CLOSE), box
