"""Estimate error intervals of unmeasured values from values that were measured.

    python -m foretrace.calibration.fit.value_doubts

Prints the constants of ``models/value_doubts.py``, all from the catalog: the fraction of a
datasheet rate that was reached, if a fit or measurement gives it; the ratio of the same constant
(efficiency, start-up time) between two parts, which is the error of an assumption "as on that
part"; and the width of the held-out errors of a family relative to their median.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import yaml
from foretrace.models.compute.student_t import student_t_quantile
from foretrace.sim.setting_groups import flatten_settings
from foretrace.sim.units import quantity

CATALOG = Path(__file__).parents[2] / "models" / "catalog"
TRUSTED = ("fitted", "measured")
SHARES = ("efficiency", "gemm.fp8.efficiency", "memory_efficiency", "simple.efficiency")
TIMES = (
    *("launch", "gemm.fp8.launch", "gemm.join", "cores.dispatch"),
    *("simple.launch", "ll.launch", "ll128.launch", "ll.step"),
)


def values(names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Measured values of the catalog: (kind and name of the value, part, text)."""
    for file in sorted(CATALOG.glob("*.yaml")):
        for kind, parts in yaml.safe_load(file.read_text()).items():
            for part, settings in parts.items():
                told = flatten_settings(settings)
                if told.get("simple.network.step.source.kind") in TRUSTED:
                    continue  # a start fitted together with a step between machines: one sum
                for name in names:
                    if told.get(f"{name}.source.kind") in TRUSTED:
                        yield f"{kind}.{name}", part, str(told[f"{name}.value"])


def bounds(logs: list[float], centred: bool) -> tuple[float, float, int]:
    """90 % prediction interval by Student's t, and the number of pairs."""
    n = len(logs)
    mean = 0.0 if centred else float(np.mean(logs))
    deviation = float(np.sqrt(np.sum((np.array(logs) - mean) ** 2) / (n - 1 + centred)))
    alone = float(student_t_quantile(n - 1 + centred, [0.95])[0])
    t = alone * deviation * float(np.sqrt(1 if centred else 1 + 1 / n))
    return round(mean - t, 2), round(mean + t, 2), n


def log_ratios_of_pairs(names: tuple[str, ...]) -> list[float]:
    """ln of the ratio of the same value between every two parts."""
    found: dict[str, list[float]] = {}
    for name, _, text in values(names):
        number = float(text) if name.partition(".")[2] in SHARES else quantity(text, "s")
        found.setdefault(name, []).append(float(np.log(number)))
    return [a - b for same in found.values() for a, b in combinations(same, 2)]


def tail_to_median() -> tuple[float, int]:
    """90 % quantile of absolute errors divided by their median: median over families and regimes.

    The second number is the count of these.
    """
    ratios = []
    for file in sorted((CATALOG / "kernels").glob("*.json")):
        for family in json.loads(file.read_text())["families"].values():
            evidence = family.get("evidence", {})  # without a source nothing was measured
            if evidence.get("source") and "quantiles" in evidence:
                known = [q for regime, q in evidence["quantiles"].items() if regime]
                ratios += [np.divide(*np.quantile(np.abs(q), [0.9, 0.5])) for q in known]
    return round(float(np.median(ratios)), 1), len(ratios)


def main() -> None:
    reached = [-float(np.log(float(text))) for _, _, text in values(SHARES)]
    print("a datasheet's rate, ln of time:", *bounds(reached, centred=False))
    print("a rate or share as on another part:", *bounds(log_ratios_of_pairs(SHARES), centred=True))
    print("a time as on another part:", *bounds(log_ratios_of_pairs(TIMES), centred=True))
    print("90 % of errors over their median:", *tail_to_median())


if __name__ == "__main__":
    main()
