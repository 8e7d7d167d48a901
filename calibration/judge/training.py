"""Predict iteration times of D4 and D4b: training configurations on A100, from descriptions.

``training.py`` predicts rows that are not set aside, blind: nothing of the measurement is used.
``--once`` scores the rows that ``rows/megatron_rows.py`` set aside. ``--composed`` is D4b, of which
``--every N`` uses each N-th row. ``--calibrated`` fits two constants on six rows (for D4b one
constant on rows with hidden 1024 and up to four GPUs, judged on hidden 2048 and eight GPUs; with
``--hosts threads`` two, for GPUs and hosts). ``--ends`` counts rows inside the intervals of
``foretrace run``. ``--without`` repeats the ten worst rows with each cost set to zero in turn.
Assumptions are below ``SCENARIO``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ScenarioError
from scipy.optimize import brentq, minimize

from ..rows.megatron_rows import TREND, Row, calibrating, rows

SCENARIO = """
foretrace: 1
name: d4
workload:
  type: training
  model: {model}
  batch: {batch}
  sequence: {sequence}
  micro_batch: {micro_batch}
  parallel: {{tensor: {tensor}, pipeline: {pipeline}, data: {data}}}
  precision: fp16
  recompute: {recompute}
  attention: written
  overlap: false
  hosts: {hosts}
  must_fit: false
cluster:
  nodes: {nodes}
  node:
    gpu: {{model: a100-sxm4-80g, count: {count}}}
    nic: {{model: connectx-7, count: {nics}, bandwidth: 200 Gb/s}}
    host: epyc-7742-dual
    links:
      - {{from: gpu, to: gpu, via: nvlink3}}
      - {{from: gpu, to: nic, via: pcie4-x16}}
  fabric: {{library: nccl-nvlink3, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
run: {{keep: ranks}}
"""
"""Assumed: gradients in fp16, reduced after the backward pass; scores in memory; four HDR NICs a
machine (vTrain, Bang et al. 2024, arXiv:2312.12391, section IV); whole layers computed again where
activations would not fit otherwise, as of all rows of D4 but not of D4b."""


class Constants(NamedTuple):
    """Factor on GPU times, fraction of the NIC rate of collectives, launch time in us, host factor.

    The host factor applies to dispatch times, if hosts have threads.
    """

    factor: float = 1.0
    network: float | None = None
    launch: float | None = None
    host: float = 1.0


BLIND = Constants()
WORST = 10  # rows whose errors are ablated
FREE = {
    "exchanges": ["{kind: collective}"],
    "messages": ["{kind: send}"],
    "products": ["{signature: 'compute:aten::*mm *'}"],
}
"""What takes no time in an ablation, by the ops that are meant."""
MACHINE = 8  # GPUs


def fills_pipeline(row: Row) -> bool:
    """True if a row has at least as many micro-batches as stages, as plans require."""
    s = row.settings
    return s["batch"] // (s["micro_batch"] * s["data"]) >= s["pipeline"]


def small(some: list[Row]) -> list[Row]:
    """Rows of D4b for the fit of a constant."""
    return [r for r in some if r.settings["hidden"] == 1024 and r.settings["gpus"] <= 4]


def large(some: list[Row]) -> list[Row]:
    """Rows of D4b that judge it."""
    return [r for r in some if r.settings["hidden"] == 2048 or r.settings["gpus"] == 8]


def scenario(row: Row, recompute: str, folder: Path, hosts: str = "ahead") -> str:
    """Scenario of a row."""
    s = row.settings
    config = {
        "model_type": "gpt2", "n_embd": s["hidden"], "n_layer": s["layers"], "n_head": s["heads"],
        "vocab_size": 51200, "n_positions": s["sequence"],
    }  # fmt: skip
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    count = min(s["gpus"], 8)
    return SCENARIO.format(
        **s, model=file, nodes=s["gpus"] // count, count=count, nics=4 if count % 4 == 0 else 1,
        recompute=recompute, hosts=hosts,
    )  # fmt: skip


def predicted(text: str, by: Constants = BLIND, free: Collection[str] = ()) -> float:
    """Predicted iteration time in s, with the ops named by ``free`` taking no time."""
    set_ = [f"ops=[{', '.join(f'{{where: {where}, scale: 0.0}}' for where in free)}]"]
    slower = {"node*.gpu*": by.factor, "node*.host": by.host}
    slowed = ", ".join(f'"{part}": {{slowdown: {f}}}' for part, f in slower.items())
    set_ += [f"cluster.override={{{slowed}}}"]
    if by.network is not None:
        set_.append(f"cluster.fabric.library.simple.network.efficiency={by.network}")
    if by.launch is not None:
        set_.append(f"cluster.node.gpu.launch={by.launch} us")
    (variant,) = build_variants(loads(text, set=set_))
    return float(variant.run().makespan)


def own_factor(text: str, seconds: float) -> float:
    """Factor on GPU times that reproduces a row's measured iteration; NaN if none does."""
    step = f"workload.measured={{iteration_time: {seconds} s}}"
    try:
        (variant,) = build_variants(loads(text, set=[step]))
    except ScenarioError as error:
        print(error)
        return np.nan
    return variant.calibration.factor if variant.calibration else np.nan


def fitted(some: list[Row], text_of: Callable[[Row], str]) -> Constants:
    """Fit the GPU factor on rows within a machine, then the network constant on the others."""
    inside = [r for r in some if r.settings["tensor"] <= MACHINE]
    factors = [own_factor(text_of(r), r.seconds) for r in inside]
    factor = float(np.exp(np.nanmedian(np.log(factors))))
    print(f"factors {np.round(factors, 3).tolist()} of rows {[r.number for r in inside]}")
    shares = []
    for row in (r for r in some if r.settings["tensor"] > MACHINE):
        text, took = text_of(row), row.seconds

        def slower(share: float, text: str = text, took: float = took) -> float:
            return predicted(text, Constants(factor, share)) / took - 1

        shares.append(brentq(slower, 0.1, 1.0, xtol=1e-3))
        print(f"network_efficiency {shares[-1]:.3f} of row {row.number}")
    return Constants(factor, float(np.median(shares)) if shares else None)


def fitted_launch(some: list[Row], text_of: Callable[[Row], str]) -> Constants:
    """Fit the launch time on rows whose hosts do not run ahead: median of each row's own value.

    Iteration time is proportional to it if every kernel waits for its host.
    """
    low, high, found = 2.0, 102.0, []
    for row in some:
        short, long = (predicted(text_of(row), Constants(launch=us)) for us in (low, high))
        found.append(low + (row.seconds - short) / (long - short) * (high - low))
    print(f"launches {np.round(found).tolist()} us of rows {[r.number for r in some]}")
    return Constants(launch=float(np.median(found)))


def fitted_hosts(some: list[Row], text_of: Callable[[Row], str]) -> Constants:
    """Factors on GPU and host times that minimize the mean of |ln(predicted / measured)|."""

    def loss(logs: Sequence[float]) -> float:
        gpu, host = np.exp(logs)
        by = Constants(factor=float(gpu), host=float(host))
        said = np.array([predicted(text_of(row), by) for row in some])
        return float(np.abs(np.log(said / [row.seconds for row in some])).mean())

    best = minimize(loss, [0.3, 0.3], method="Nelder-Mead", options={"xatol": 0.01, "maxfev": 60})
    gpu, host = map(float, np.exp(best.x))
    print(f"factors {gpu:.3f} (GPUs), {host:.3f} (hosts) of rows {[r.number for r in some]}")
    print(f"mean |ln| of these {best.fun:.3f}")
    return Constants(factor=gpu, host=host)


def ends(chosen: list[Row], text_of: Callable[[Row], str]) -> None:
    """Print the interval of each row, its main cause, and how many contain the measurement."""
    inside = []
    for row in chosen:
        found = study(loads(text_of(row))).summary
        value = found.value("base", "iteration_time.p50")
        low, high = value.interval or (np.nan, np.nan)
        inside.append(low <= row.seconds <= high)
        wide = [(e["source"], round(e["low"], 3), round(e["high"], 3))
                for e in found.points["base"].get("errors", [])]  # fmt: skip
        print(f"{row.number:5} {row.seconds:9.4f} {value.value:9.4f}  {low:.4f} to {high:.4f} "
              f"{'in' if inside[-1] else 'OUT'}  {wide[:3]}", flush=True)  # fmt: skip
    print(f"{sum(inside)} of {len(inside)} inside")


def ablate(
    chosen: list[Row], said: list[float], text_of: Callable[[Row], str], by: Constants
) -> None:
    """Print how the error of the worst rows changes if each kind of cost is removed."""
    found = zip(chosen, said, strict=True)
    worst = sorted(found, key=lambda p: -abs(p[1] / p[0].seconds - 1))
    for row, took in worst[:WORST]:
        alone = {"launches": predicted(text_of(row), by._replace(launch=0.0))}
        for name, free in FREE.items():
            try:
                alone[name] = predicted(text_of(row), by, free)
            except ScenarioError:  # the row has none of these ops
                continue
        told = ", ".join(f"{k} {(s - took) / row.seconds:+.1%}" for k, s in alone.items())
        print(f"{row.number:5} {took / row.seconds - 1:+7.1%}  {told}", flush=True)


def score(said: np.ndarray, took: np.ndarray) -> str:
    """Text with errors and ranking."""
    error = said / took - 1
    size = np.abs(error)
    n = len(took)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    agree = [np.sign(said[i] - said[j]) * np.sign(took[i] - took[j]) for i, j in pairs]
    regret = took[np.argmin(said)] / took.min() - 1
    level = np.exp(np.median(np.log(took / said)))
    rest = np.abs(said * level / took - 1)
    return (
        f"{n} rows: median {np.median(size):.1%}, mean {size.mean():.1%}, worst {size.max():.1%}, "
        f"bias {np.median(error):+.1%}; top-1 regret {regret:.1%}, tau {np.mean(agree):.2f}; "
        f"but for a factor {level:.2f}: median {np.median(rest):.1%}, mean {rest.mean():.1%}"
    )


def main() -> None:
    """Print a line for each row, and the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--composed", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--recompute", default="")
    parser.add_argument("--calibrated", action="store_true")
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--hosts", default="ahead", choices=("ahead", "threads"))
    args = parser.parse_args()
    table = "measured_single_node" if args.composed else "measured_multi_node_3.6B"
    recompute = args.recompute or ("none" if args.composed else "full")
    read = list(rows(table))
    every = [r for r in read if fills_pipeline(r)]
    print(f"{len(read) - len(every)} rows have fewer micro-batches than stages and are refused")
    chosen = [r for r in every if r.aside == args.once][:: args.every]
    constants, said = BLIND, []
    with tempfile.TemporaryDirectory() as name:

        def text_of(row: Row) -> str:
            return scenario(row, recompute, Path(name), args.hosts)

        if args.ends:
            ends(chosen, text_of)
            return
        if args.calibrated:
            used = calibrating(small(every) if args.composed else every)
            threads = args.hosts == "threads"
            fit = fitted_hosts if threads else fitted_launch if args.composed else fitted
            constants = fit(used, text_of)
            chosen = [r for r in large(chosen) if r not in used] if args.composed else [
                r for r in chosen if r not in used]  # fmt: skip
        for row in chosen:
            said.append(predicted(text_of(row), constants))
            mark = " *" if row.number in TREND and not args.composed else ""
            error, what = said[-1] / row.seconds - 1, tuple(row.settings.values())
            print(f"{row.number:5} {row.seconds:9.4f} {said[-1]:9.4f} {error:+7.1%} {what}{mark}")
        if args.without:
            ablate(chosen, said, text_of, constants)
    told, took = np.array(said), np.array([r.seconds for r in chosen])
    print(score(told, took))
    if not args.composed:
        kept = np.array([r.number not in TREND for r in chosen])
        print("without rows 13, 15 and 20:", score(told[kept], took[kept]))


if __name__ == "__main__":
    main()
