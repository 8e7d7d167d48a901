"""Measuring: CPU seconds, ratios of things that ran side by side, and one JSON line at the end."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call; wall time is noise where others use the machine."""
    began = time.process_time()
    work()
    return time.process_time() - began


def side_by_side(rounds: int, **works: Callable[[], object]) -> dict[str, float]:
    """Median CPU seconds of each, run in turn, so that a slow moment hits all of them alike."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            spent[name].append(cpu(work))
    return {name: statistics.median(s) for name, s in spent.items()}


def growth_exponent(sizes: list[float], costs: list[float]) -> float:
    """The power of size with which cost grows: slope of the logarithms, least squares.

    >>> growth_exponent([1, 10, 100], [2, 20, 200])
    1.0
    """
    import math

    x, y = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    return round(statistics.linear_regression(x, y).slope, 3)


def peak_memory() -> float:
    """Bytes this process has had resident at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def report(name: str, goals: dict[str, tuple[float, str, float]], **facts: object) -> None:
    """Print each figure beside its goal, then all of it as one line of JSON; exit 1 on a miss.

    A figure that misses its goal says so, with its ratio to the goal.

    Parameters
    ----------
    goals : ``{figure: (value, "<=" or ">=", goal)}``
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
