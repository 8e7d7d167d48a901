"""Cost of a sweep of 1,000 points of the bundled scenario on two processes.

``--cost`` instead prints the constants that ``foretrace plan`` estimates with: seconds and bytes
per op.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from foretrace.scenarios.config.loader import load, with_overrides
from foretrace.scenarios.studies.sweep.machine_cache import cached_machine
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store, save_sweep
from foretrace.scenarios.studies.sweep.sweeping import SweepInProgress
from foretrace.scenarios.studies.sweep.task import (
    cached_graphs,
    evaluate_point,
    make_task,
    shared_task_part,
)
from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas
from foretrace.scenarios.studies.workers.process_pool import ProcessPool

from .._measure import report

POINTS = 1000
EARLY = 100  # points after which memory has to stay as it is
SETTINGS = (
    "what_if=[]",
    "run.replicas=1",
    "sweep={vary: {cluster.node.nic.bandwidth: {from: 1 GB/s, to: 5.995 GB/s, step: 0.005 GB/s}}}",
)
ROUNDS = 15


def main() -> None:
    scenario = load("first", set=SETTINGS)
    overhead, whole = cpu_seconds_per_point(scenario)
    wall, own, early, late = run_sweep(scenario)
    report(
        "sweep",
        {
            "wall s of 1,000 points, 2 processes": (wall, "<=", 60.0),
            "overhead of a point, share of its run": (overhead / whole, "<=", 0.25),
            "CPU s of the client for a point": (own / POINTS, "<=", 0.005),
            "memory, last point over the 100th": (late / early, "<=", 1.05),
        },
        overhead_seconds=overhead,
        seconds_of_a_point=whole,
        bytes_of_all_processes=late,
    )


def run_sweep(scenario) -> tuple[float, float, float, float]:
    """Run a sweep: wall seconds, CPU seconds of this process, total memory early and late."""
    seen = {}
    count = 0

    def progress(_):
        nonlocal count
        count += 1
        if count in (EARLY, POINTS):
            seen[count] = resident_bytes()

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        began, used = time.monotonic(), time.process_time()
        crew, kept = ProcessPool(2), outcome_store(out, scenario)
        with kept:
            done = SweepInProgress(scenario, kept, crew, progress).try_all_points()
        crew.close()
        save_sweep(done, kept, out, {}, began)
        wall, own = time.monotonic() - began, time.process_time() - used
        assert len(done.trials) == POINTS, len(done.trials)
        assert not done.failed
    return wall, own, seen[EARLY], seen[POINTS]


def resident_bytes() -> float:
    """Resident memory of this process and its children, in bytes."""
    listed = subprocess.run(
        ["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True
    )
    rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()[1:]]
    ours, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, above, _ in rows if above in ours} - ours
        ours, grown = ours | more, bool(more)
    return 1024.0 * sum(rss for pid, _, rss in rows if pid in ours)


def cpu_seconds_per_point(scenario) -> tuple[float, float]:
    """CPU seconds per point outside its run, and in total; one process, graph already built."""
    shared = shared_task_part(scenario)
    evaluate_point(make_task(shared, {}))
    alone, whole = [], []
    for i in range(ROUNDS):
        changed = {"cluster.node.nic.bandwidth": f"{6 + i} GB/s"}
        began = time.process_time()
        evaluate_point(make_task(shared, changed))
        whole.append(time.process_time() - began)
    for i in range(ROUNDS):
        changed = {"cluster.node.nic.bandwidth": f"{i + 6} GB/s"}
        one = with_overrides(scenario.resolved(), changed)
        machine = cached_machine(one, shared["files"])
        graphs = cached_graphs(one, machine[0], shared["files"])
        ready = build_variant(one, graphs, machine)
        began = time.process_time()
        run_with_replicas(ready)
        alone.append(time.process_time() - began)
    return statistics.median(whole) - statistics.median(alone), statistics.median(whole)


def cost() -> None:
    """Seconds and bytes per op, from runs of two sizes in separate processes."""
    program = f"from {__spec__.name} import run_size; run_size(int(__import__('sys').argv[1]))"
    for ranks in (2, 8, 32, 64):
        subprocess.run([sys.executable, "-c", program, str(ranks)], check=True)


def run_size(ranks: int) -> None:
    """Run one size, and print its CPU seconds and peak resident bytes."""
    scenario = load("first", set=[
        "what_if=[]", "run.replicas=1", f"cluster.nodes={ranks}",
        f"workload.scale_to.parallel.data={ranks}", "sweep={vary: {cluster.nodes: [1]}}",
    ])  # fmt: skip
    shared = shared_task_part(scenario)
    evaluate_point(make_task(shared, {}))
    began = time.process_time()
    found = evaluate_point(make_task(shared, {"cluster.node.nic.bandwidth": "9 GB/s"}))
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ops = found["ops"]
    each = f"{took / ops * 1e6:6.3f} us/op  {peak / 1e6:7.0f} MB  {peak / ops:7.0f} B/op"
    print(f"{ranks:4} ranks  {ops:9} ops  {took:7.3f} s  {each}")


if __name__ == "__main__":
    cost() if "--cost" in sys.argv else main()
