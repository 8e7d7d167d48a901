"""The plan that records a GPU: what it asks for, in which order, and that no stop ends it."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.drivers.pytorch.torch_device import TorchDriver
from foretrace.hil.measuring.plan import PlanPiece, RecordingPlan
from foretrace.hil.measuring.plan_journal import journal_path, read_journals, recording_of_journals
from foretrace.hil.measuring.plan_run import Progress, run_plan
from foretrace.hil.measuring.work_list import WorkList, touched_bytes
from foretrace.hil.recording import read
from foretrace.hil.sample import Request
from foretrace.models.compute.demand import FAMILIES, family
from foretrace.models.compute.kernels import load_families
from foretrace.models.compute.op_shape import op_shape
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.studies.fitting.gpu_fit import CONSTANTS, DERIVED
from foretrace.scenarios.studies.fitting.gpu_plan import gpu_plan
from foretrace.scenarios.studies.fitting.gpu_shapes import (
    LISTS,
    held_out_signatures,
    signatures_of_list,
)
from foretrace.sim.errors import DriverFault, RecordingError, ScenarioError
from foretrace.sim.facts.signature import parse_signature
from made_up_gpu import MadeUpGpu, plug_in
from typer.testing import CliRunner

OF_CPUS = {"im2col convolution", "im2col convolution backward"}
HELD = 1.2e10  # B of operands that a driver keeps until it is closed: fits a GPU of 16 GB
ASIDE = "2a12f0e80d7e613b"  # sha256 of all that is held out, its first digits


def shapes(name):
    return {o.family for part in signatures_of_list(name) for s in part if (o := op_shape(s))}


@pytest.mark.parametrize("name", LISTS)
def test_the_driver_does_all_that_a_list_asks_for_and_it_fits_a_small_gpu(name):
    shown, kept = signatures_of_list(name)
    driver = TorchDriver()
    assert [s for s in shown + kept if not driver.answers(s)] == []
    assert sum(parse_signature(s).bytes for s in shown + kept) < HELD
    assert not set(shown) & set(kept)


def test_every_family_of_the_catalog_is_recorded_and_some_of_each_is_set_aside():
    found = Counter(family(s) for name in LISTS for part in signatures_of_list(name) for s in part)
    assert set(FAMILIES) - OF_CPUS <= set(found)
    assert min(found[f] for f in set(FAMILIES) - OF_CPUS) >= 20
    of_gpus = [op_shape(s) for name in LISTS for s in signatures_of_list(name)[0]]
    held = [op_shape(s) for s in held_out_signatures()]
    names = set(load_families("h100-sxm5-80g")) - {"stream", "roofline", DERIVED}
    for one in names:
        assert sum(o is not None and o.family == one for o in of_gpus) >= 15, one
        assert sum(o is not None and o.family == one for o in held) >= 4, one
    assert set(CONSTANTS) | {"product"} == names


def test_held_out_ops_stay_held_out():
    assert sha256("\n".join(sorted(held_out_signatures())).encode()).hexdigest()[:16] == ASIDE


def test_the_plan_takes_two_hours_and_starts_with_the_most_important_ops():
    plan = gpu_plan("cuda:0")
    assert 1.5 < plan.seconds / 3600 <= 2
    names = [p.name for p in plan.pieces]
    assert names[:4] == ["launches", "products", "sums", "attention"]
    assert names.index("norms") < names.index("images")
    assert gpu_plan("cuda:0", 0.5).rounds < plan.rounds
    assert gpu_plan("cuda:0", 0.01).rounds == 1


def test_a_batch_of_every_piece_is_one_that_measuring_allows():
    for piece in gpu_plan("cuda:0").pieces:
        assert max(touched_bytes(r) for r in piece.work.requests) <= piece.work.bytes


def test_the_command_writes_the_plan_and_its_agent_and_says_how_long(tmp_path):
    told = CliRunner().invoke(app, ["hil", "plan", "gpu", "--out", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    assert 1.5 < json.loads(told.stdout)["seconds"] / 3600 <= 2
    assert RecordingPlan.read(tmp_path / "plan.json") == gpu_plan("cuda:0")
    assert (tmp_path / "foretrace-agent.pyz").is_file()
    text = CliRunner().invoke(app, ["hil", "plan", "gpu", "--out", str(tmp_path), "--hours", "1"])
    assert "python3 foretrace-agent.pyz --plan plan.json --out kept" in text.output
    with pytest.raises(ScenarioError, match="takes only --out, --hours and --option device"):
        CliRunner().invoke(app, ["hil", "plan", "gpu", "--starts", "3"], catch_exceptions=False)
    with pytest.raises(ScenarioError, match="--hours is for 'hil plan gpu' only"):
        CliRunner().invoke(
            app, ["hil", "plan", "--hours", "1", "--op", "copy:h2h uint8[64]"],
            catch_exceptions=False,
        )  # fmt: skip


TEXTS = [f"compute:aten::add bf16[{n}] bf16[{n}]" for n in (64, 256, 1024)]


def small(rounds=3, names=("one", "two")):
    """A plan of two pieces of three ops, four batches of each."""
    pieces = (
        PlanPiece(
            WorkList("torch", tuple(Request(t, 5) for t in TEXTS), {"device": "cuda:0"}, starts=1,
                     most_starts=1, blocks=4, busy=99.0, note=name), 10.0)
        for name in names
    )  # fmt: skip
    return RecordingPlan(tuple(pieces), rounds)


@pytest.fixture
def gpu(monkeypatch):
    plug_in(monkeypatch)
    monkeypatch.setattr(MadeUpGpu, "slow", 1.0)


def run(plan, folder, driver=MadeUpGpu):
    told = []
    return run_plan(plan, folder, lambda name: driver, told.append), told


MORTAL = """\
"Does a plan in children that are killed at the so many-th question that each line read says."
import os, signal, sys
from pathlib import Path
import pytest
from foretrace.hil.measuring.plan import RecordingPlan
from foretrace.hil.measuring.plan_run import run_plan
from made_up_gpu import MadeUpGpu, plug_in

class Mortal(MadeUpGpu):
    left = 0

    def timing(self, requests):
        Mortal.left -= 1
        if Mortal.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().timing(requests)

plug_in(pytest.MonkeyPatch())
plan, folder = RecordingPlan.read(Path("plan.json")), Path("kept")
for line in sys.stdin:
    Mortal.left = int(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        run_plan(plan, folder, lambda name: Mortal, lambda told: None)
        os._exit(0)
"""


def test_a_plan_killed_at_any_instant_keeps_its_samples_and_continues(gpu, tmp_path):
    """In a process of its own: what other tests started (gRPC, say) does not outlive a fork."""
    plan, draw, kept = small(), random.Random(5), tmp_path / "kept"
    (tmp_path / "plan.json").write_text(plan.text())
    kept.mkdir()
    devices = Path(__file__).parents[2] / "helpers/devices"
    program = {"args": [sys.executable, "-c", MORTAL], "cwd": tmp_path,
               "env": os.environ | {"PYTHONPATH": str(devices)}}  # fmt: skip
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    seen, ends = [], []
    with subprocess.Popen(**program, **pipe) as process:
        while not ends or ends[-1] == -signal.SIGKILL:
            print(draw.randrange(1, 30), file=process.stdin, flush=True)
            ends.append(int(process.stdout.readline()))
            now = [(n, s.key, s.ns.tolist()) for n, j in read_journals(kept).items()
                   for s in j.samples]  # fmt: skip
            assert now[: len(seen)] == seen  # nothing that was there is lost
            assert len(ends) < 60
            seen = now
    assert ends[-1] == 0
    assert len(ends) > 6
    path, told = run(plan, kept)
    assert told == ["6 of 6 pieces done, about 1 min left"]
    whole = read(path)
    assert not whole.ended
    starts = {text: {s.start for s in whole.samples if s.signature == text} for text in TEXTS}
    assert min(map(len, starts.values())) >= plan.rounds
    assert [s.ns.tolist() for s in whole.samples][: len(seen)] == [ns for *_, ns in seen]


def test_a_journal_cut_at_any_byte_gives_its_complete_lines(gpu, tmp_path):
    run(small(rounds=1, names=("one",)), tmp_path)
    path = journal_path(tmp_path, 0)
    text = path.read_bytes()
    every = read_journals(tmp_path)[0].samples
    for cut in range(0, len(text), 37):
        path.write_bytes(text[:cut])
        lines = text[:cut].count(b"\n")
        found = read_journals(tmp_path)
        kept = found[0].samples if found else []
        assert len(kept) == min(max(lines - 1, 0), len(every))
        assert [s.ns.tolist() for s in kept] == [s.ns.tolist() for s in every[: len(kept)]]


def test_each_piece_is_measured_once_per_round_and_progress_is_reported(gpu, tmp_path):
    _, told = run(small(rounds=2), tmp_path)
    assert [t for t in told if "round" in t] == [
        "one, round 1 of 2: 3 ops", "two, round 1 of 2: 3 ops",
        "one, round 2 of 2: 3 ops", "two, round 2 of 2: 3 ops",
    ]  # fmt: skip
    done = [t.partition(" pieces")[0] for t in told if "done" in t]
    assert done == ["0 of 4", "1 of 4", "2 of 4", "3 of 4", "4 of 4"]


def test_the_remaining_time_is_estimated_from_finished_pieces(gpu, tmp_path):
    plan = small(rounds=2)
    run(plan, tmp_path)
    journals = read_journals(tmp_path)
    for journal in journals.values():
        journal.seconds = 30.0  # three times what was planned
    first = Progress(plan, {0: journals[0]})
    assert first.seconds_left == pytest.approx(3 * 30.0)
    assert Progress(plan, {}).seconds_left == pytest.approx(40.0)


def test_a_fault_of_the_device_keeps_what_was_measured_and_ends_it(gpu, tmp_path):
    class Dies(MadeUpGpu):
        asked = 0

        def timing(self, requests):
            Dies.asked += 1
            if Dies.asked == 25:
                raise DriverFault("died", "torch: the agent ended (code 7)")
            return super().timing(requests)

    plan = small()
    with pytest.raises(DriverFault, match="died"):
        run(plan, tmp_path, Dies)
    before = read(tmp_path / "gpu.rec.gz")
    assert before.samples
    assert before.ended.startswith(("0 of 6 pieces done", "1 of 6"))
    path, _ = run(plan, tmp_path)
    assert not read(path).ended
    assert read(path).samples[: len(before.samples)] != ()


def test_a_folder_holds_recordings_of_one_gpu_only(gpu, tmp_path, monkeypatch):
    run(small(rounds=1), tmp_path)
    monkeypatch.setattr(
        MadeUpGpu, "describe", lambda self: {**TorchDriver.describe(self), "device": "another"}
    )
    with pytest.raises(RecordingError, match="torch another and torch stand-in"):
        run(small(rounds=2), tmp_path)


def test_a_damaged_line_is_named_and_nothing_is_measured_over_it(gpu, tmp_path):
    run(small(rounds=1), tmp_path)
    path = journal_path(tmp_path, 0)
    lines = path.read_text().split("\n")
    path.write_text("\n".join([lines[0], lines[1][:-9], *lines[2:]]))
    with pytest.raises(RecordingError, match=r"start-0000.jsonl:2: is damaged .*remove the file"):
        run(small(rounds=1), tmp_path)


def test_a_plan_of_another_version_is_refused(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(small().text().replace('"schema": 1', '"schema": 2', 1))
    with pytest.raises(RecordingError, match=r"is not a plan .*write one with 'foretrace hil plan"):
        RecordingPlan.read(file)


def of_host(folder):
    """A plan for memory of this machine, and what does it."""
    ops = tuple(Request(f"copy:h2h uint8[{n}]", 3) for n in (4096, 65536))
    work = WorkList("host", ops, starts=1, most_starts=1, blocks=2, busy=99.0, note="copies")
    (folder / "plan.json").write_text(RecordingPlan((PlanPiece(work, 1.0),), 2).text())
    write_bundle(folder / "foretrace-agent.pyz")
    return [sys.executable, "foretrace-agent.pyz", "--plan", "plan.json", "--out", "kept"]


def test_a_copied_agent_runs_a_plan_and_continues_it(tmp_path):
    command = of_host(tmp_path)
    for word in ("wrote kept", "2 of 2 pieces done"):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert word in done.stderr
    assert len(list((tmp_path / "kept").glob("start-*.jsonl"))) == 2
    denied = subprocess.run([*command, "--allow", "torch"], cwd=tmp_path, capture_output=True)
    assert denied.returncode == 4


def test_a_plan_is_run_and_its_recording_read_by_the_command_line(tmp_path, monkeypatch):
    of_host(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["hil", "record", "plan.json", "--out", "kept"])
    assert done.exit_code == 0, done.output
    Path("kept/gpu.rec.gz").unlink()  # as a kill leaves it
    told = CliRunner().invoke(app, ["hil", "record", "--read", "kept", "--json"])
    assert json.loads(told.stdout)["starts"] == 2
    whole = recording_of_journals(read_journals(Path("kept")))
    assert replace(whole, samples=()).driver == "host"
