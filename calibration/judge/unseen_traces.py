"""Score recorded GPU traces from other projects that had not been seen, once.

    python -m foretrace.calibration.judge.unseen_traces FOLDER [LIST.csv]

``unseen_traces/traces.csv`` lists them (repository, commit, path, sha256, GPU), and ``FOLDER``
holds the files; none is part of this project. GPUs that the catalog lacks are described in
``unseen_traces/gpus``. Measures are those of ``traces.py``; for GPUs whose kernels were scaled to
recorded traces of the same GPU, *blind* is scored too. Each trace is also read by ``foretrace trace
info``, and run with a chain on its own GPU and two others. An error is a row and a failure; an
error that is not one of foretrace's own is shown as a traceback. Pairs are the same work on two
GPUs.
"""

from __future__ import annotations

import csv
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[1] / "rows" / "unseen_traces"
os.environ["FORETRACE_CATALOG"] = str(HERE / "gpus")

from foretrace.models.compute.chain import Chain  # noqa: E402
from foretrace.models.compute.cross_gpu_scaling import CrossGpuScaling, GpuModel  # noqa: E402
from foretrace.scenarios.config.loader import loads  # noqa: E402
from foretrace.scenarios.studies.variants.variants import build_variants  # noqa: E402
from foretrace.sim.errors import ForetraceError  # noqa: E402
from foretrace.sim.facts.system import System  # noqa: E402
from scipy.stats import binomtest  # noqa: E402

from ..fit.kernels import LEVELLED  # noqa: E402  the catalog is chosen before it is read
from .steps import count, gpu_time, step  # noqa: E402
from .traces import (  # noqa: E402
    Score,
    by_family,
    carried_errors,
    gpu,
    kernels,
    periods,
    score,
    settings,
)

MEASURED = ("a100-sxm4-80g", "h100-sxm5-80g", "h200-sxm-141g")  # with tables of ops
ENOUGH = 0.9  # share of kernel time that is answered
PAIRS = tuple(
    (f"{name}.{here}.json.gz", f"{name}.{there}.json.gz")
    for name in ("timesformer", "owlv2")
    for here, there in (("h100", "mi300"), ("mi300", "h100"))
)
SCENARIO = """\
foretrace: 1
name: unseen
question: q
workload: {{trace: '{trace}', recorded_on: {{device: {here}}}, missing_ranks: recorded_waits}}
cluster:
  nodes: 1
  node:
    gpu: {{model: {there}, count: 8}}
    host: epyc-7742-dual
    links: [{{from: gpu, to: gpu, via: nvlink4}}, {{from: gpu, to: host, via: pcie5-x16}}]
  fabric: {{library: nccl-nvlink4}}
backends: {{node*.gpu*: [carried, roofline, recorded], node*.gpu*.dma: [copy, recorded]}}
"""


class TraceResult(NamedTuple):
    """Result for one trace; ``refused`` is an error message, or ""."""

    file: str
    gpu: str
    seconds: float
    score: Score | None
    blind: Score | None
    refused: str
    runs: int
    counts: bool

    @property
    def bars(self) -> str:
        """Verdict on the targets, "pass" or "fail".

        The targets are: sum (15 or 35 %), median (20 %, measured GPUs), predicted share (90 %).
        """
        s = self.blind or self.score
        if s is None or not s.answered >= ENOUGH:
            return "fail"
        if self.gpu in MEASURED:
            return "pass" if abs(s.sum) <= 0.15 and s.median <= 0.20 else "fail"
        return "pass" if abs(s.sum) <= 0.35 else "fail"


def refusal(error: BaseException) -> str:
    """Message of an error; an unexpected exception is marked as a traceback."""
    ours = isinstance(error, ForetraceError | SystemExit)
    kind = "" if ours else f"TRACEBACK {type(error).__name__}: "
    return kind + " ".join(str(error).split())[:400]


def score_trace(folder: Path, row: dict[str, str]) -> TraceResult:
    """Compute all results of one trace."""
    path = (folder / row["file"]).resolve()
    if hashlib.sha256(path.read_bytes()).hexdigest() != row["sha256"]:
        raise SystemExit(f"{path}: is not the file of the list (sha256)")
    scored, blind, seconds, refused = None, None, float("nan"), []
    print(f"\n{row['file']}: {row['gpu']}, {row['told']}")
    try:
        ops = kernels(str(path))
        seconds = float(ops.duration.sum())
        scored = score(ops, gpu(row["gpu"]).model)
        print(f"{'':50s}{seconds * 1e3:9.2f}{scored}")
        if row["gpu"] == LEVELLED:
            blind = score(ops, blind_gpu(row["gpu"]).model)
            print(f"{'    blind':59s}{blind}")
        for family, rows in by_family(ops).items():
            some = ops.take_with_placement(rows)
            if some.duration.sum() > 0.03 * seconds:
                told_ = score(some, gpu(row["gpu"]).model)
                print(f"    {family or 'other':46s}{some.duration.sum() * 1e3:9.2f}{told_}")
    except Exception as error:  # what users would see as a traceback is what is looked for
        refused.append("kernels: " + refusal(error))
    refused += [*refusals(path, row["gpu"])]
    runs = 0
    for there in (row["gpu"], *[g for g in MEASURED if g != row["gpu"]][:2]):
        try:
            (point,) = build_variants(
                loads(SCENARIO.format(trace=path, here=row["gpu"], there=there))
            )
            runs += point.run().makespan > 0
        except Exception as error:  # as above
            refused.append(f"run on {there}: " + refusal(error))
    for line in refused:
        print("    REFUSED", line)
    print(f"    runs on {runs} of 3")
    sys.stdout.flush()
    counts = not row["noticed"]
    return TraceResult(
        row["file"], row["gpu"], seconds, scored, blind, "; ".join(refused), runs, counts
    )  # fmt: skip


def refusals(path: Path, on: str) -> Iterable[str]:
    """Error messages of ``foretrace trace info`` for a trace."""
    words = [sys.executable, "-m", "foretrace", "trace", "info", str(path), "--json", "--on", on]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        yield "trace info: " + " ".join(done.stderr.split())[-400:]


def blind_gpu(name: str) -> GpuModel:
    """GPU model with the constants of other GPUs."""
    return GpuModel.of(name, settings(name) | {"kernels": "other"})


def share(what: str, of: list[TraceResult], holds: list[TraceResult]) -> None:
    """Print one count, with Wilson's 95 % interval."""
    if of:
        low, high = binomtest(len(holds), len(of)).proportion_ci(method="wilson")
        print(f"{what:66s}{len(holds):3d} of {len(of):2d} ({low:.0%} to {high:.0%})")


def counts(every: list[TraceResult]) -> None:
    """Print the counts of the documentation page."""
    some = [one for one in every if one.counts]
    enough = [t for t in some if t.score and t.score.answered >= ENOUGH]
    own = [t for t in some if t.gpu in MEASURED]
    other = [t for t in some if t.gpu not in MEASURED]
    print()
    share("read, asked and run on three GPUs without a refusal", some,
          [t for t in some if not t.refused])  # fmt: skip
    share("answered to 90 %", some, enough)
    share("GPUs with tables: share, sum within 15 %, median within 20 %", own,
          [t for t in own if t.bars == "pass"])  # fmt: skip
    share("other GPUs: share, sum within 35 %, blind", other,
          [t for t in other if t.bars == "pass"])  # fmt: skip
    share("inside the interval (blind), of those answered to 90 %", enough,
          [t for t in enough if inside(t.blind or t.score)])  # fmt: skip
    share("inside the interval (as asked), of those answered to 90 %", enough,
          [t for t in enough if inside(t.score)])  # fmt: skip
    some_answer = [t for t in some if t.score and t.score.answered > 0.01]
    share("inside the interval (as asked), of those answered to 1 %", some_answer,
          [t for t in some_answer if inside(t.score)])  # fmt: skip


def inside(one: Score | None) -> bool:
    return one is not None and one.low <= 1 <= one.high


def pairs(folder: Path, rows: dict[str, str]) -> None:
    """Predict the same work on the other GPU, and print the errors."""
    print(
        f"\n{'pairs: error of the sum':46s}{'answered':>9s}{'chain':>9s}{'copied':>9s}{'peaks':>9s}"
    )
    for here, there in PAIRS:
        if here in rows and there in rows:
            ops, truth = (kernels(str((folder / f).resolve())) for f in (here, there))
            a = gpu(rows[here])
            per = periods(truth) / periods(ops)
            for way, b in (("", gpu(rows[there])), ("blind", blind_gpu(rows[there]))):
                if way and rows[there] != LEVELLED:
                    continue
                chain = Chain.of(CrossGpuScaling(here=a, there=b), b.model)
                chain.open(System(()))
                answered, *errors = carried_errors(chain, a, b, ops, truth, per)
                line = "".join(f"{error:+9.1%}" for error in errors)
                print(f"{f'{here} to {rows[there]} {way}':46s}{answered:9.1%}{line}")


def steps(folder: Path, rows: dict[str, str]) -> None:
    """Predict the step and its kernel sum on the other GPU, as in ``steps.py``, and print them."""
    asked_steps, sums = [], []
    for here, there in PAIRS:
        if here in rows and there in rows:
            names = [str((folder / f).resolve()) for f in (here, there)]
            print(f"{here} to {rows[there]}")
            for what, ask, kept in (("step", step, asked_steps), ("kernels", gpu_time, sums)):
                try:
                    kept.append(ask(*names))
                    print(f"    {what:8s}{kept[-1]}")
                except (Exception, SystemExit) as error:  # as in ``told``
                    print(f"    {what:8s}REFUSED {refusal(error)}")
            sys.stdout.flush()
    if asked_steps and sums:
        print(f"steps inside: {count(asked_steps)}\nsums of kernels inside: {count(sums)}")


def main() -> None:
    folder = Path(sys.argv[1])
    listed = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "traces.csv"
    with open(listed, newline="") as lines:
        rows = list(csv.DictReader(lines))
    every = [score_trace(folder, row) for row in rows]
    print(f"\n{'':28s}{'ms':>9s}{'answered':>9s}{'sum':>7s}{'median':>9s}   90 % of the sum")
    for one in every:
        ms, text = one.seconds * 1e3, one.score or "refused"
        mark = "" if one.counts else " (no count)"
        print(f"{one.file:28s}{ms:9.2f}{text}  runs {one.runs} of 3  {one.bars}{mark}")
        if one.blind:
            print(f"{'    blind':37s}{one.blind}")
    counts(every)
    by_file = {row["file"]: row["gpu"] for row in rows}
    pairs(folder, by_file)
    steps(folder, by_file)


if __name__ == "__main__":
    main()
