"""Search over 1,000 parallel plans, each simulated, on two processes; compared with Calculon.

The plans are all valid plans of GPT-3 13B on 32, 64 and 128 H100s (or of 175B on 768). Plans that
exceed the memory are refused and not counted. The measured time includes the error intervals of
the best ten plans and the page, and is scaled to 1,000 plans. Then ``foretrace run`` simulates the
ten plans again and must give the same ticks.

Usage: python -m foretrace.benchmarks.commands.search [--model gpt3-13b] [--nodes 4 8 16]
    [--calculon CHECKOUT]

CHECKOUT : of github.com/calculon-ai/calculon (Isaev et al. 2023), which uses closed formulas; it
    times the same plans on its own description of an H100, for comparison
"""

import argparse
import json
import logging
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from foretrace.models.training.description.model_zoo import model as description_of
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.scenario import Scenario
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store, save_sweep
from foretrace.scenarios.studies.sweep.sweep_summary import Swept
from foretrace.scenarios.studies.sweep.sweeping import SweepInProgress
from foretrace.scenarios.studies.sweep.task import evaluate_point
from foretrace.scenarios.studies.workers.process_pool import ProcessPool
from numpy.typing import NDArray
from scipy.stats import kendalltau

from .._measure import peak_memory, report

SETTINGS, CORES, BEST, GOAL = 1000, 2, 10, 60.0
SEQUENCE = 2048
BATCH = {"gpt3-13b": 512, "gpt3-175b": 1536}
NODES = {"gpt3-13b": [4, 8, 16], "gpt3-175b": [96]}
SCENARIO = """
foretrace: 1
name: search
workload:
  {{type: training, model: {model}, batch: {batch}, sequence: {sequence}, zero: 3, recompute: full}}
cluster:
  nodes: {nodes[0]}
  node:
    gpu: {{model: h100-sxm5-80g, count: 8}}
    nic: {{model: connectx-7, count: 8}}
    links: [{{from: gpu, to: gpu, via: nvlink4}}, {{from: gpu, to: nic, via: pcie5-x16}}]
  fabric: {{library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
cost: {{items: [{{what: node, each: 24 USD/hour}}]}}
run: {{keep: ranks}}
sweep:
  method: plans
  vary: {{cluster.nodes: {nodes}}}
  optimize: [{{minimize: cost_per_million_tokens}}]
"""
CALCULON_RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}
Settings = dict[str, Any]
Facts = dict[str, Any]
Numbers = NDArray[np.float64]


def main(model: str, nodes: list[int], calculon: Path | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "search.yaml"
        file.write_text(
            SCENARIO.format(model=model, batch=BATCH[model], sequence=SEQUENCE, nodes=nodes)
        )
        crew, began = MeasuredPool(CORES), time.monotonic()
        used = time.process_time()
        swept = run_search(load(file), crew, Path(name))
        wall, own = time.monotonic() - began, time.process_time() - used
        best = [trial for trial, _ in swept.ranking]
        differ = [
            t
            for t in best
            if iteration_and_end_of_command(file, t.settings) != iteration_and_end(t.values)
        ]
    assert len(best) == BEST
    assert not swept.failed
    found = [t for t in swept.trials if t.error is None]
    spent = (own + sum(crew.spent.values())) * SETTINGS / len(found)
    facts: dict[str, object] = {
        "settings": len(found),
        "refused": len(swept.trials) - len(found),
        "wall_seconds": wall,
        "cpu_seconds": own + sum(crew.spent.values()),
        "cpu_seconds_of_the_client": own,
        "median_cpu_seconds_of_a_plan": statistics.median(crew.each[t.key] for t in found),
        "bytes_of_the_largest_process": max(peak_memory(), *crew.memory.values()),
        "cannot_be_told_from_the_first": sum(
            not row["best"]["sure"] for _, row in swept.ranking[1:]
        ),
    }  # fmt: skip
    if calculon:
        ours = [(t.settings, t.values["iteration_time.p50"], crew.each[t.key]) for t in found]
        facts["calculon"] = compare_with_calculon(calculon, model, ours)
    report(
        "search",
        {
            "s of 1,000 settings, 2 quiet cores": (spent / CORES, "<=", GOAL),
            "of the best ten, others than `run` says": (len(differ), "<=", 0),
        },
        **facts,
    )


class MeasuredPool(ProcessPool):
    """Process pool of a sweep that measures each task.

    Parameters
    ----------
    each : CPU seconds of each point, by key
    spent, memory : CPU seconds, and peak bytes of memory, of each process
    """

    def __init__(self, count: int):
        super().__init__(count)
        self.each: dict[str, float] = {}
        self.spent: dict[int, float] = {}
        self.memory: dict[int, float] = {}

    def run(self, work: Any, tasks: Any) -> Iterator[Any]:
        assert work is evaluate_point
        for task, outcome in super().run(measured_point, tasks):
            took = outcome.pop("took")
            self.each[outcome["key"]] = took["cpu"]
            self.spent[took["process"]] = took["so_far"]
            self.memory[took["process"]] = took["memory"]
            yield task, outcome


def measured_point(task: dict) -> dict:
    """Result of a sweep point with its cost; a process's first point also loads the kernels."""
    began = time.process_time()
    outcome = evaluate_point(task)
    so_far = time.process_time()
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = {
        "process": os.getpid(),
        "cpu": so_far - began,
        "so_far": so_far,
        "memory": 1024.0 * kilobytes,
    }
    return {**outcome, "took": took}


def run_search(scenario: Scenario, crew: MeasuredPool, folder: Path) -> Swept:
    """Run the sweep and save it, as the command does."""
    began, kept = time.monotonic(), outcome_store(folder, scenario)
    with kept:
        swept = SweepInProgress(scenario, kept, crew).try_all_points()
    crew.close()
    save_sweep(swept, kept, folder, {}, began)
    return swept


def iteration_and_end(values: Mapping[str, float]) -> tuple[float, float]:
    """Iteration time and makespan of a run."""
    return values["iteration_time.p50"], values["makespan"]


def iteration_and_end_of_command(file: Path, settings: Settings) -> tuple[float, float]:
    """Iteration time and makespan of ``foretrace run`` with the given settings."""
    words = [w for k, v in settings.items() for w in ("--set", f"{k}={json.dumps(v)}")]
    command = ["-m", "foretrace", "run", str(file), "--quick", "--no-cache", "--json", *words]
    done = subprocess.run(
        [sys.executable, *command, "--out", str(file.parent)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    metrics = json.loads(done.stdout)["points"]["base"]["metrics"]
    return iteration_and_end({name: found["value"] for name, found in metrics.items()})


def compare_with_calculon(
    checkout: Path, model: str, ours: list[tuple[Settings, float, float]]
) -> Facts:
    """Iteration times in both tools for plans that both support, and agreement of the rankings.

    Parameters
    ----------
    ours : settings, iteration time in s, and CPU seconds of the simulation, for each plan
    """
    ask = Calculon(checkout, model)
    both, refusals = [], Counter[str]()
    for settings, seconds, cpu in ours:
        if settings["workload.parallel.zero"] > 1:
            refusals["ZeRO 2 and 3: it has no words for them"] += 1
            continue
        began = time.process_time()
        theirs = ask.seconds_of_iteration(settings)
        spent = time.process_time() - began
        if isinstance(theirs, str):
            refusals[theirs] += 1
        else:
            both.append((settings["cluster.nodes"], seconds, theirs, cpu, spent))
    nodes, here, there, our_cpu, their_cpu = (
        np.array(column) for column in zip(*both, strict=True)
    )
    print(f"{len(both)} of {len(ours)} plans are answered by both; of Calculon's others:")
    for why, count in refusals.most_common():
        print(f"  {count}: {why}")
    print(f"CPU ms a plan: here {1e3 * our_cpu.mean():.2f}, Calculon {1e3 * their_cpu.mean():.2f}, "
          f"{our_cpu.sum() / their_cpu.sum():.0f} times as long")  # fmt: skip
    rankings = {}
    for count in sorted(set(nodes.tolist())):
        rows = nodes == count
        agreed = ranking_agreement(here[rows], there[rows])
        rankings[f"{8 * count} GPUs"] = agreed
        print(f"{8 * count} GPUs: {agreed}")
    return {
        "answered_by_both": len(both),
        "cpu_seconds_of_1000_here": 1000 * our_cpu.mean(),
        "cpu_seconds_of_1000": 1000 * their_cpu.mean(),
        "rankings": rankings,
        "its_others": refusals,
    }


def ranking_agreement(here: Numbers, there: Numbers) -> Facts:
    """Agreement of two rankings of plans.

    ``place_there`` is the rank of our best plan in the other tool, ``place_here`` the reverse.
    ``longer_here`` is how much slower its best plan is than ours, in our simulation.
    """
    ours, theirs = int(np.argmin(here)), int(np.argmin(there))
    return {
        "plans": len(here),
        "kendall_tau": round(float(kendalltau(here, there).statistic), 3),
        "place_there": int((there < there[ours]).sum()) + 1,
        "place_here": int((here < here[theirs]).sum()) + 1,
        "longer_here": round(float(here[theirs] / here[ours] - 1), 4),
        "median_ratio_of_times": round(float(np.median(there / here)), 3),
    }


class Calculon:
    """Calculon with its model and machine, run for one plan at a time.

    Parameters
    ----------
    checkout : path of Calculon's sources
    model : model in our description; Calculon's own GPT-3 13B has hidden size 5,140, which is not
        divisible by 8
    """

    def __init__(self, checkout: Path, model: str):
        sys.path.insert(0, str(checkout))
        sys.modules.setdefault("psutil", ModuleType("psutil"))  # for searches of its own alone
        from calculon import System
        from calculon.llm import Llm

        ours = description_of(model)
        named = {
            "hidden": ours.hidden, "feedforward": ours.inner, "seq_size": SEQUENCE,
            "attn_heads": ours.heads, "attn_size": ours.hidden // ours.heads,
            "num_blocks": ours.layers,
        }  # fmt: skip
        self.llm, self.system, self.log = Llm, System, logging.getLogger("calculon")
        self.app, self.batch = Llm.Application(named), BATCH[model]
        self.machine = json.loads((checkout / "systems" / "h100_80g_nvl8.json").read_text())

    def seconds_of_iteration(self, settings: Settings) -> float | str:
        """Iteration time in s, or the reason why Calculon gives none."""
        try:
            plan, system = self.llm(self.app, self.log), self.system(self.machine)
            words = calculon_settings(settings, self.batch)
            plan.compile(system, self.llm.Execution.from_json(words))
            plan.run(system)
            return float(plan.get_total_time())
        except (self.llm.Error, AssertionError) as error:
            return re.sub(r"[\d.]+ \w*B\b", "…", str(error)) or "an assertion without words"


def calculon_settings(settings: Settings, batch: int) -> Settings:
    """Settings of a plan in Calculon's names."""
    told = {path.rsplit(".", 1)[-1]: value for path, value in settings.items()}
    gpus, tensor, pipeline = 8 * told["nodes"], told["tensor"], told["pipeline"]
    data = gpus // (tensor * pipeline)
    return {
        "num_procs": gpus, "tensor_par": tensor, "pipeline_par": pipeline, "data_par": data,
        "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": batch,
        "microbatch_size": told["micro_batch"], "datatype": "float16", "fused_activation": True,
        "attention_type": "multihead", "pipeline_interleaving": told["chunks"],
        "activation_recompute": CALCULON_RECOMPUTE[told["recompute"]],
        "optimizer_sharding": told["zero"] > 0, "tensor_par_overlap": "none",
        "tensor_par_comm_type": "rs_ag" if told["sequence"] else "ar", "seq_par_ag_redo": False,
        "data_par_overlap": data > 1, "weight_offload": False, "activations_offload": False,
        "optimizer_offload": False, "training": True,
    }  # fmt: skip


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--model", choices=list(NODES), default="gpt3-13b")
    options.add_argument("--nodes", type=int, nargs="+")
    options.add_argument("--calculon", type=Path, metavar="CHECKOUT")
    given = options.parse_args()
    main(given.model, given.nodes or NODES[given.model], given.calculon)
