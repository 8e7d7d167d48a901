"""Helpers for benchmarks: CPU seconds, ratios of interleaved runs, and a final line of JSON."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call; wall time is unreliable on a shared machine."""
    began = time.process_time()
    work()
    return time.process_time() - began


def side_by_side(rounds: int, **works: Callable[[], object]) -> dict[str, float]:
    """Median CPU seconds of each function; they run in turn, so that noise affects all equally."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            spent[name].append(cpu(work))
    return {name: statistics.median(s) for name, s in spent.items()}


def growth_exponent(sizes: list[float], costs: list[float]) -> float:
    """Exponent of the power law of cost over size, fitted by least squares of logarithms.

    >>> growth_exponent([1, 10, 100], [2, 20, 200])
    1.0
    """
    import math

    x, y = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    return round(statistics.linear_regression(x, y).slope, 3)


def peak_memory() -> float:
    """Peak resident memory of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def report(name: str, goals: dict[str, tuple[float, str, float]], **facts: object) -> None:
    """Print results with their goals, then all as one line of JSON; exit 1 if a goal is missed.

    A missed goal is marked with the ratio of result to goal.

    Parameters
    ----------
    goals : ``{result name: (value, "<=" or ">=", goal)}``
    """
    missed = {}
    for figure, (value, sign, goal) in goals.items():
        good = value <= goal if sign == "<=" else value >= goal
        if not good:
            missed[figure] = value / goal
        ratio = "" if good else f"  {value / goal:.3f} of the goal"
        print(f"{'pass' if good else 'MISS'}  {figure:44} {value:12.5g}  {sign} {goal:g}{ratio}")
    figures = {figure: value for figure, (value, _, _) in goals.items()}
    told = {"benchmark": name, "met": not missed, "missed": missed, **figures, **facts}
    print(json.dumps(told))
    if missed:
        sys.exit(1)
