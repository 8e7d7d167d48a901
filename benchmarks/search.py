"""A search over 1,000 parallel plans, each simulated, on two processes; Calculon on the same plans.

GPT-3 13B on 64 and 128 H100s, drawn from all plans that keep the rules; those that do not fit into
memory are refused, and come on top.  The best ten are run alone, and must end at the same tick.

Usage: python benchmarks/search.py [settings] [CALCULON] [model]

settings : how many are simulated; the goal is for 1,000
CALCULON : a checkout of github.com/calculon-ai/calculon (Isaev et al. 2023), which takes formulas
"""

import json
import logging
import random
import statistics
import sys
import time
from pathlib import Path
from types import ModuleType

from _measure import report
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.samples import samples_of
from foretrace.scenarios.studies.sweep.plan_points import plan_points
from foretrace.scenarios.studies.sweep.task import evaluate_point, make_task, shared_task_part
from foretrace.scenarios.studies.variants import build_variants
from foretrace.scenarios.studies.workers.pool import ProcessPool

SETTINGS, CORES, BEST, GOAL = 1000, 2, 10, 60.0
BATCH = {"gpt3-13b": 512, "gpt3-175b": 1536}
NODES = {"gpt3-13b": [8, 16], "gpt3-175b": [96, 128]}
SCENARIO = """
foretrace: 1
name: search
workload: {{type: training, model: {model}, batch: {batch}, sequence: 2048}}
cluster:
  nodes: {nodes[0]}
  node:
    gpu: {{model: h100-sxm5-80g, count: 8}}
    nic: {{model: connectx-7, count: 8}}
    links: [{{from: gpu, to: gpu, via: nvlink4}}, {{from: gpu, to: nic, via: pcie5-x16}}]
  fabric: {{library: nccl-nvlink4, switch: tomahawk-5, fidelity: alpha-beta}}
backends: {{"node*.gpu*": {{use: roofline}}}}
run: {{keep: ranks, quick: true}}
sweep:
  method: plans
  vary: {{cluster.nodes: {nodes}}}
  optimize: [{{minimize: iteration_time.p50}}]
"""
CALCULON_RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}


def main(settings: int = SETTINGS, calculon: str = "", model: str = "gpt3-13b") -> None:
    text = SCENARIO.format(model=model, batch=BATCH[model], nodes=NODES[model])
    scenario = loads(text)
    shared = shared_task_part(scenario)
    points = plan_points(scenario)
    random.Random(0).shuffle(points)
    began = time.monotonic()
    found, refused = simulated([make_task(shared, point) for point in points], settings)
    wall = time.monotonic() - began
    spent = sum(one["cpu"] for one in (*found, *refused)) * SETTINGS / len(found)
    median = statistics.median(one["cpu"] for one in found)
    found.sort(key=lambda one: one["values"]["iteration_time.p50"])
    differ = [one["set"] for one in found[:BEST] if alone(text, one["set"]) != times(one["values"])]
    facts = {"settings": len(found), "refused": len(refused), "wall_seconds": wall}
    facts["median_cpu_seconds_of_a_plan"] = median
    if calculon:
        facts |= calculons_time(Path(calculon), model, [one["set"] for one in found])
    report(
        "search",
        {
            "s of 1,000 settings, 2 quiet cores": (spent / CORES, "<=", GOAL),
            "of the best ten, others than `run` says": (len(differ), "<=", 0),
        },
        **facts,
    )


def simulated(tasks: list, settings: int) -> tuple[list, list]:
    """Outcomes of the first so many that fit, and of those that were refused before them."""
    found, refused, crew = [], [], ProcessPool(CORES)
    while len(found) < settings and tasks:
        more = settings - len(found)
        batch, tasks = tasks[:more], tasks[more:]
        for _, outcome in crew.run(timed_point, batch):
            if "error" not in outcome:
                found.append(outcome)
            else:
                assert outcome["error"]["kind"] == "PlanError", outcome["error"]
                refused.append(outcome)
    crew.close()
    return found, refused


def timed_point(task: dict) -> dict:
    """Outcome of a point with its CPU seconds; in the first of a process kernels are loaded."""
    began = time.process_time()
    outcome = evaluate_point(task)
    return {**outcome, "cpu": time.process_time() - began}


def times(values: dict) -> tuple[float, float]:
    """Iteration and end of a run."""
    return values["iteration_time.p50"], values["makespan"]


def alone(text: str, settings: dict) -> tuple[float, float]:
    """The same of the settings in a scenario of their own, as ``foretrace run`` takes them."""
    words = [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    (point,) = build_variants(loads(text, set=words))
    found = samples_of(point, point.run())
    return float(found["iteration_time"][0]), float(found["makespan"][0])


def calculons_time(checkout: Path, model: str, settings: list[dict]) -> dict:
    """Calculon's CPU seconds of 1,000 of the same settings, and how many of them it refuses."""
    sys.path.insert(0, str(checkout))
    sys.modules.setdefault("psutil", ModuleType("psutil"))  # for searches of its own alone
    from calculon import System
    from calculon.llm import Llm

    named = {"gpt3-13b": "gpt3-13B", "gpt3-175b": "gpt3-175B"}[model]
    app = Llm.Application(json.loads((checkout / "models" / f"{named}.json").read_text()))
    machine = json.loads((checkout / "systems" / "h100_80g_nvl8.json").read_text())
    log, refused, began = logging.getLogger("calculon"), 0, time.process_time()
    for one in settings:
        try:
            plan = Llm(app, log)
            system = System(machine)
            plan.compile(system, Llm.Execution.from_json(calculons_words(one, BATCH[model])))
            plan.run(system)
        except (Llm.Error, AssertionError):  # such as heads that ranks do not share evenly
            refused += 1
    spent = time.process_time() - began
    return {
        "calculon_cpu_seconds_of_1000": spent * SETTINGS / len(settings),
        "calculon_refused": refused,
    }


def calculons_words(settings: dict, batch: int) -> dict:
    """Settings of a plan as Calculon takes them."""
    said = {path.rsplit(".", 1)[-1]: value for path, value in settings.items()}
    gpus, tensor, pipeline = 8 * said["nodes"], said["tensor"], said["pipeline"]
    data = gpus // (tensor * pipeline)
    return {
        "num_procs": gpus, "tensor_par": tensor, "pipeline_par": pipeline, "data_par": data,
        "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": batch,
        "microbatch_size": said["micro_batch"], "datatype": "float16", "fused_activation": True,
        "attention_type": "multihead", "pipeline_interleaving": said["chunks"],
        "activation_recompute": CALCULON_RECOMPUTE[said["recompute"]],
        "optimizer_sharding": said["zero"] > 0, "tensor_par_overlap": "none",
        "tensor_par_comm_type": "rs_ag" if said["sequence"] else "ar", "seq_par_ag_redo": False,
        "data_par_overlap": data > 1, "weight_offload": False, "activations_offload": False,
        "optimizer_offload": False, "training": True,
    }  # fmt: skip


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))
