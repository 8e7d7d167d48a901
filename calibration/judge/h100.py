"""Compare the model of an H100 with the recordings `*-h100` and the steps of `rows/h100`.

    python -m foretrace.calibration.judge.h100 [ops|steps|facts] [--aside]

Half of the shapes and of the steps are set aside by the hash of their name, before any fit; without
``--aside`` only the others are compared. Ops repeated alone are predicted without a cold start,
those with emptied caches with it. The bench knows the bytes of an op from its signature, so updates
(whose other operands the signature lacks) are compared within steps only; copies have no link here.
Prints the rows of ``docs/scores/h100-*.csv``.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.hil.bundled_recordings import recording_path
from foretrace.hil.recording import read
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.models.compute.op_shape import op_shape
from foretrace.models.value_doubts import doubt_without_measurements
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.scenarios.studies.fitting.bench import Bench, RecordedOp
from foretrace.sim.facts.signature import parse_signature
from foretrace.sim.rerun.model_errors import interval_factors
from foretrace.sim.run.simulation import Simulation

SEED, SHARE = "foretrace-h100", 0.5
PIECES = ("gemm", "shapes", "fp8", "attention", "layers", "rows", "images", "cold")
GPU = "h100-sxm5-80g"
ALONE: dict[str, Any] = {"gemm": {"cold": "0 us"}}
LEFT_OUT = ("stream",)
SHORT, FEWEST = 20e-6, 5  # s; ops of a row
HEAD = ("kind", "<= 20 us", "error", "signed", "in", "> 20 us", "error", "signed", "in")
NAMES = {"product": "GEMM", "gather of few": "gather", "norm": "RMS norm"}
WITH_GRADIENTS = ("gather", "layer norm", "RMS norm", "softmax")
HERE = Path(__file__).parents[1] / "rows/h100"


class Compared(NamedTuple):
    """Op as recorded and as predicted, in s, with the ends of its 90 % interval as factors."""

    signature: str
    kind: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        return self.low * self.predicted <= self.measured <= self.high * self.predicted


def is_set_aside(name: str) -> bool:
    """True if the op of this signature, or the step of this name, is set aside.

    >>> is_set_aside("gpt-125m-autocast"), is_set_aside("gpt-1.3b-bf16")
    (True, False)
    """
    return bool(held_out_mask([name], share=SHARE, seed=SEED)[0])


def recorded(piece: str) -> dict[str, float]:
    """Median time in s of each op of a recording."""
    found: dict[str, list[float]] = {}
    for sample in read(recording_path(f"foretrace:torch-{piece}-h100")).samples:
        found.setdefault(sample.signature, []).append(sample.median * 1e-9)
    return {s: float(np.median(times)) for s, times in found.items()}


def kind_of(signature: str, piece: str) -> str:
    """Kind of an op in the table: family, with the element type of GEMMs; gradients apart."""
    shape, parts = op_shape(signature), parse_signature(signature)
    family = NAMES.get(shape.family, shape.family) if shape else ""
    if family == "GEMM":
        scaled = parts.dtype == "fp8" and parts.attributes.get("quantized") != "1"
        family = f"GEMM {parts.dtype}{' and scaling' if scaled else ''}"
    elif "batch_norm" in parts.op:
        family = "batch norm"
    elif parts.op.endswith("_backward") and family in WITH_GRADIENTS:
        family += " backward"
    elif parts.op in ("nll_loss_forward", "linalg_vector_norm"):
        family = "loss, vector norm"
    return family + (", cold" if piece == "cold" else "")


def compared(piece: str, aside: bool) -> list[Compared]:
    """Ops of a recording with their predictions."""
    times = recorded(piece)
    some = [
        s for s in times
        if is_set_aside(s) == aside and (shape := op_shape(s)) and shape.family not in LEFT_OUT
    ]  # fmt: skip
    bench = Bench("gpu")
    scenario = bench.scenario({"model": GPU, **({} if piece == "cold" else ALONE)}, {})
    system = build_system(scenario)
    bound = build_backends(scenario, system)
    graph = bench.graph([RecordedOp(s) for s in some], system)
    simulation = Simulation(system, bound, engine="reference")
    run = simulation.run(graph, keep="ops")
    predicted = (run.columns.end - run.columns.start) * 1e-12
    low, high = interval_factors(graph, simulation.bound, doubt_without_measurements())
    return [
        Compared(s, kind_of(s, piece), times[s], *map(float, row))
        for s, *row in zip(some, predicted, low, high, strict=True)
    ]


def lines(rows: Iterable[Compared]) -> Iterator[list[str]]:
    """Rows of the table: errors of each kind in percent, of short ops and of longer ones."""
    every = list(rows)
    for kind in sorted({r.kind for r in every}, key=str.lower):
        halves = [[r for r in every if r.kind == kind and (r.measured <= SHORT) == short]
                  for short in (True, False)]  # fmt: skip
        if max(map(len, halves)) >= FEWEST:
            yield [kind, *(cell for half in halves for cell in cells(half))]


def cells(rows: list[Compared]) -> list[str]:
    """Number of ops, their median and p90 error, median signed error, and share inside."""
    if len(rows) < FEWEST:
        return ["", "", "", ""]
    error = 100 * np.array([r.error for r in rows])
    size = f"{np.median(abs(error)):.0f} / {np.quantile(abs(error), 0.9):.0f}"
    inside = 100 * np.mean([r.inside for r in rows])
    return [str(len(rows)), size, f"{np.median(error):+.0f}", f"{inside:.0f}"]


def scenario_of(step: dict[str, Any]) -> str:
    """Scenario of a recorded step, as a user would describe it."""
    sizes = step["model"]
    if sizes is None:
        model, sequence = "resnet-50", ""
    else:
        hidden, layers, heads, words, inner, shared = sizes
        told = f"hidden: {hidden}, layers: {layers}, heads: {heads}, vocabulary: {words}"
        sequence = f"  sequence: {step['length']}\n"
        model = (
            f"{{{told}, inner: {inner}, attention: {{key_heads: {shared}}},"
            " tokens: {tied: false}, block: {norm: rms, biases: none, gated: true}}"
            if shared
            else f"{{{told}, inner: {4 * hidden}, block: {{norm: layer, gated: false}},"
            f" tokens: {{positions: {step['length']}, tied: true}}}}"
        )
    hosts = "ahead" if step["compiled"] else "threads"
    return (
        "foretrace: 1\nname: step\nworkload:\n  type: training\n"
        f"  model: {model}\n  batch: {step['batch']}\n{sequence}"
        f"  parallel: {{micro_batch: {step['batch']}}}\n  execution: {{hosts: {hosts}}}\n"
        f"cluster: {{nodes: 1, node: {{gpu: {{model: {GPU}, count: 1}},"
        " host: {model: xeon-8480c-dual}}}\n"
        'backends: {"node*.gpu*": {use: roofline}}\n'
    )


def predicted_step(step: dict[str, Any]) -> tuple[float, tuple[float, float] | None]:
    """Predicted time of a step in s, and its interval."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.yaml"
        file.write_text(scenario_of(step))
        command = [sys.executable, "-m", "foretrace", "run", str(file), "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{step['name']}: {done.stderr}")
        found = json.loads(done.stdout)["points"]["base"]["metrics"]["iteration_time.p50"]
    return found["value"], tuple(found["interval"]) if found["interval"] else None


def steps(aside: bool) -> Iterator[list[str]]:
    """Rows of the table of steps; only element types that a description has."""
    for line in (HERE / "steps.jsonl").read_text().splitlines():
        step = json.loads(line)
        if step["machine"] == 1 or step["types"] == "tf32" or is_set_aside(step["name"]) != aside:
            continue
        value, interval = predicted_step(step)
        took = step["queued"]
        inside = "" if interval is None else "yes" if interval[0] <= took <= interval[1] else "no"
        host = float(np.median(step["host"]))
        yield [step["name"], f"{1e3 * took:.1f}", f"{1e3 * host:.1f}", f"{step['at_work']['mhz']}",
               f"{step['at_work']['watts']:.0f}", f"{1e3 * value:.1f}",
               f"{100 * (value / took - 1):+.0f}", inside]  # fmt: skip


def main() -> None:
    aside = "--aside" in sys.argv
    out = csv.writer(sys.stdout, lineterminator="\n")
    if "steps" in sys.argv:
        out.writerow(["step", "ms", "of the host", "MHz", "W", "predicted", "error", "inside"])
        out.writerows(steps(aside))
        return
    out.writerow(HEAD)
    out.writerows(lines(row for piece in PIECES for row in compared(piece, aside)))


if __name__ == "__main__":
    main()
