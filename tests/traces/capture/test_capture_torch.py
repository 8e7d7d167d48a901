"""Does `capture` record what a training script does?  Needs a Python that has torch."""

import csv
import gzip
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.capture.launcher import capture

TORCH = "FORETRACE_TORCH_PYTHON"
SCRIPT = """\
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--second", action="store_true")
parser.add_argument("--gloo", action="store_true")
args = parser.parse_args()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(31, 17), torch.nn.Linear(17, 1))
if args.gloo:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(args.steps):
    model(torch.randn(5, 31)).sum().backward()
    optimizer.step()
    if args.second:
        other.step()
"""
PHASES = ["warm-up", "warm-up", "untraced", "prepare", "traced", "traced", "export", "untraced"]
STEPS = len(PHASES) + 1  # the first one starts the clock


@pytest.fixture(scope="module")
def trainer() -> str:
    """A Python that has torch: this one, or the one that the environment names."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    if TORCH not in os.environ:
        pytest.skip(f"torch is not installed here; {TORCH} may name a Python that has it")
    return os.environ[TORCH]


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("script") / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def record(out: Path, *command: str) -> list[Path]:
    return capture(command, out, steps=2, warm_up=2, untraced=1)


@pytest.fixture(scope="module")
def alone(trainer, script, tmp_path_factory) -> Path:
    """What one process leaves, with a second optimizer that steps as well."""
    out = tmp_path_factory.mktemp("alone")
    assert record(out, trainer, script, "--second", "--steps", str(STEPS)) == [
        out / "rank0.json.gz"
    ]
    return out


@pytest.fixture(scope="module")
def pair(trainer, script, tmp_path_factory) -> Path:
    """What two ranks under torchrun leave."""
    out = tmp_path_factory.mktemp("pair")
    torchrun = [trainer, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    traces = record(out, *torchrun, script, "--gloo", "--steps", str(STEPS))
    assert [trace.name for trace in traces] == ["rank0.json.gz", "rank1.json.gz"]
    return out


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


def trace(path: Path) -> dict:
    with gzip.open(path) as text:
        return json.load(text)


def durations(events: list[dict], prefix: str) -> dict[str, float]:
    """Nanoseconds of the complete events whose names begin with `prefix`."""
    named = [e for e in events if e.get("ph") == "X" and e["name"].startswith(prefix)]
    return {e["name"]: e["dur"] * 1000 for e in named}


def test_every_step_is_timed_and_says_what_it_is_good_for(alone):
    rows = table(alone / "rank0.steps.csv")
    assert [row["phase"] for row in rows] == PHASES
    assert [int(row["step"]) for row in rows] == list(range(len(PHASES)))
    assert all(int(row["duration_ns"]) > 0 for row in rows)
    ends = [int(row["start_ns"]) + int(row["duration_ns"]) for row in rows]
    assert all(
        end <= int(row["start_ns"]) + 10**6 for end, row in zip(ends, rows[1:], strict=False)
    )


def test_traced_steps_carry_the_number_of_their_row(alone):
    marks = durations(trace(alone / "rank0.json.gz")["traceEvents"], "ProfilerStep#")
    rows = [row for row in table(alone / "rank0.steps.csv") if row["phase"] == "traced"]
    assert sorted(marks) == [f"ProfilerStep#{row['step']}" for row in rows]
    for row in rows:  # the mark also contains the profiler's own step
        assert int(row["duration_ns"]) <= marks[f"ProfilerStep#{row['step']}"]


def test_operators_keep_their_shapes(alone):
    events = trace(alone / "rank0.json.gz")["traceEvents"]
    shapes = [e["args"]["Input Dims"] for e in events if e.get("name") == "aten::linear"]
    assert [[5, 31], [17, 31], [17]] in shapes


def test_the_trace_says_how_it_was_made(alone):
    facts = trace(alone / "rank0.json.gz")["foretrace"]
    assert (facts["rank"], facts["world_size"], facts["threads"]) == (0, 1, 1)
    assert facts["settings"]["steps"] == 2
    manifest = json.loads((alone / "capture.json").read_text())
    assert manifest["command"][-1] == str(STEPS)


def test_no_half_written_file_remains(alone):
    assert sorted(p.name for p in alone.iterdir()) == [
        "capture.json",
        "rank0.json.gz",
        "rank0.steps.csv",
    ]


def test_workers_of_a_launcher_leave_one_trace_each(pair):
    for rank in (0, 1):
        group = trace(pair / f"rank{rank}.json.gz")["distributedInfo"]
        assert (group["rank"], group["world_size"], group["backend"]) == (rank, 2, "gloo")
        assert [row["phase"] for row in table(pair / f"rank{rank}.steps.csv")] == PHASES


def test_gloo_collectives_are_in_the_trace(pair):
    events = trace(pair / "rank1.json.gz")["traceEvents"]
    names = [e["name"] for e in events if e.get("ph") == "X"]
    assert names.count("c10d::allreduce_") >= 2
    assert names.count("gloo:all_reduce") >= 2


def test_too_short_a_training_says_how_long_it_must_be(trainer, script, tmp_path):
    with pytest.raises(TraceError, match=r"rank0.*made 4 steps, tracing needs 7 \(1 to start"):
        record(tmp_path, trainer, script, "--steps", "4")
