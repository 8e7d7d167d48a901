"""Common parts of the scores of lab recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from foretrace.hil.recording import Recording
from foretrace.sim.facts.signature import parse_signature


@dataclass(frozen=True)
class Score:
    """Predicted and measured time of one op in s, and the spread of its measurements."""

    op: str
    predicted: float
    measured: float
    spread: float

    @property
    def error(self) -> float:
        """Relative error of the prediction, signed."""
        return self.predicted / self.measured - 1

    @property
    def off(self) -> float:
        """Absolute error of the prediction, s."""
        return abs(self.predicted - self.measured)


def measured(recording: Recording) -> dict[tuple[str, str], tuple[float, float]]:
    """Median over starts of each op's median in s, and their A/A spread."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for sample in recording.samples:
        found.setdefault(sample.key, {}).setdefault(sample.start, []).extend(sample.ns.tolist())
    told = {}
    for key, starts in found.items():
        medians = np.array([np.median(ns) for ns in starts.values()])
        middle = float(np.median(medians))
        told[key] = middle * 1e-9, float((medians.max() - medians.min()) / middle)
    return told


def parts(signature: str) -> tuple[str, dict[str, str], int]:
    """Name, attributes and bytes of an op."""
    name, *words = parse_signature(signature).name.split()
    told = dict(word.split("=", 1) for word in words)
    return name, told, int(sum(o.bytes for o in parse_signature(signature).operands))


def within(score: Score, share: float, seconds: float) -> bool:
    """True if the error is below a fraction of the measurement, or below an absolute time."""
    return abs(score.error) <= share or score.off <= seconds


def mape(scores: list[Score]) -> float:
    """Mean absolute relative error."""
    return float(np.mean([abs(s.error) for s in scores]))


def table(title: str, scores: Mapping[str, list[Score]] | list[Score]) -> None:
    """Print scores, one per line."""
    print(f"\n{title}")
    groups = scores if isinstance(scores, Mapping) else {"": scores}
    for group, rows in groups.items():
        for s in rows:
            print(f"  {group:8} {s.op:48} predicted {s.predicted * 1e6:11.2f} us  measured "
                  f"{s.measured * 1e6:11.2f} us  {s.error:+7.2%}  {s.off * 1e6:6.2f} us  "
                  f"A/A {s.spread:.2%}")  # fmt: skip
