"""Fit NCCL on 2 and 4 GPUs; judge on 8 GPUs of the same machines and of others (check D8).

    python -m foretrace.calibration.fit.collectives [--forms]

``rows/nccl_rows.py`` defines the rows to fit and to judge. A protocol is a line (launch, step,
fraction of the line rate), and the fastest protocol is used. In a ring, each lap ends with a copy.
Eight constants per NVLink generation are fitted. Not fitted: the steps of ll128 and simple, which
rows with few members cannot separate from launch (two equally good fits gave 1 and 30 us), the
in-switch rate for eight GPUs (both use NCCL's own values), and torch's call time.

Model forms are compared by how well 2-GPU rows predict 4 GPUs (``--forms``), never by judging rows;
so the copy was chosen. The host time of 20 to 30 us per call follows from how the curves were
measured. All judging curves except those of ``unseen`` were known when this form was chosen, with
the errors of three earlier forms. Those of ``unseen`` were scored three times: with the steps of
ll128 and simple fitted too, from two starts, and as here.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import ROUGH, PredictionErrors, fit_parameters
from foretrace.models.network.collective.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collective.protocols import CHUNKS, PAYLOAD, SwitchRounds

from ..rows.nccl_rows import GPUS, LINK, framework, superbench, table, third, unseen

START = (30e-6, 0.8, 17e-6, 0.7, 5e-6, 8e-7, 0.3, 0.5)
STEP = {"simple": 3.4e-6, "ll128": 1.9e-6}
"""Latencies of a step over NVLink by which NCCL chooses (src/graph/tuning.cc, hwLat)."""
DISPATCH = 25e-6
"""From the call to the kernel: "some 20-30us", ml-engineering, network/benchmarks, of the script
that took the curves of ``framework`` (there one call at a time on idle GPUs)."""
SWITCH = {"nvlink4": 476e9 * 8 / 14 * 9 / 8, "nvlink5": 932e9 * 8 / 14 * 9 / 8}
"""B/s into and out of each of eight GPUs where the switch reduces: NCCL tells itself that a ring of
476 GB/s would be as quick on Hopper, of 932 on Blackwell (src/graph/tuning.cc: 8 heads of 40 or 90
GB/s, of which 0.85 or 0.74 are reached, times 7/8, both ways at once); 9/8 of S is what crosses."""
IN_SWITCH = 5.7e-6, 3.82e-6
"""Start without the host's part, and what a round of chunks costs (``fabrics.py``)."""
LISTED = (2**15, 2**18, 2**21)  # on which a machine's one constant is fitted
LARGE = 16 * 2**20
ONE_LINE = (20e-6, 1e-6, 0.7)  # the baseline: a ring, a start, a step, a rate


class ProtocolLines(NamedTuple):
    """(launch, step, rate fraction) of each protocol, and the copy time relative to sending."""

    protocols: list[tuple[float, float, float]]
    copy: float = 0.0

    @classmethod
    def of(cls, q: np.ndarray) -> ProtocolLines:
        """Build from fitted values: one line, or all three, with or without the copy."""
        if len(q) == len(ONE_LINE):
            return cls([tuple(q)])
        simple, ll128 = ((q[i], s, q[i + 1]) for i, s in ((0, STEP["simple"]), (2, STEP["ll128"])))
        return cls([simple, ll128, tuple(q[4:7])], *q[7:])


DATASHEET = ProtocolLines([(0, 0, share) for share in PAYLOAD.values()])


def predict(lines, collective, n, size, link):
    """Predicted time in s: the fastest protocol, or the switch if it has a line of its own."""
    rate, ring = LINK[link], ALGORITHMS[collective]["ring"]
    copied = 1 + lines.copy * ring.last_share_received(n) / ring.volume(n)
    ways = [
        launch + closed_form(ring, n, size * copied, step, rate * share)
        for launch, step, share in lines.protocols
    ]
    if (collective, n) == ("all-reduce", 8) and link in SWITCH:
        launch, cost = IN_SWITCH[0] + 2 * STEP["simple"], IN_SWITCH[1]
        beta = 9 / 8 / SWITCH[link] - cost / (8 * 16 * CHUNKS[-1])
        spent, overhead = SwitchRounds(8 * 16, cost).overhead(size)
        ways.append(launch + spent + (size + overhead) * beta)
    return np.min(ways, axis=0)


def predict_rows(lines, rows, link):
    """Predicted time in s of a list of rows."""
    seconds = np.zeros(len(rows))
    for key in {(c, n) for c, n, _, _ in rows}:
        at = [i for i, r in enumerate(rows) if r[:2] == key]
        seconds[at] = predict(lines, *key, np.array([rows[i][2] for i in at]), link)
    return seconds


def fitted(link, ranks, start, **search):
    """Fit protocol lines to a link; returns them and the rows of the fit."""
    rows = [row for gpu in GPUS[link] for row in table(gpu, ranks)]
    seconds = [r[3] for r in rows]
    q = fit_parameters(
        lambda q: predict_rows(ProtocolLines.of(q), rows, link), start, seconds, **search
    )
    return ProtocolLines.of(q), rows


def print_errors(name, guess, seconds, rows):
    if rows.any():
        print(f"    {name:34s} {PredictionErrors.of(guess[rows], seconds[rows])}")


def judge(curve, models):
    """Print errors up to and above 16 MiB, blind and with a constant from the listed sizes."""
    print(f"  {curve.name}, {curve.collective}")
    small, listed = curve.size <= LARGE, np.isin(curve.size, LISTED)
    for name, lines in models.items():
        alone = predict(lines, curve.collective, curve.n, curve.size, curve.link)
        blind = alone + DISPATCH * curve.called * (name != "datasheet")
        print_errors(f"{name}, <= 16 MiB", blind, curve.seconds, small)
        print_errors(f"{name}, > 16 MiB", blind, curve.seconds, ~small)
        if listed.sum() == len(LISTED) and name != "datasheet":
            extra = best_offset(alone[listed], curve.seconds[listed])
            what = f"{name}, {extra * 1e6:+.1f} us fitted"
            print_errors(f"{what}, <= 16 MiB", alone + extra, curve.seconds, small & ~listed)
            print_errors(f"{what}, > 16 MiB", alone + extra, curve.seconds, ~small)


def best_offset(alone, seconds):
    """Constant extra time per call that minimizes the errors on these rows, in s."""
    tried = np.linspace(0, 100e-6, 2001)
    wrong = np.abs(np.log((alone[:, None] + tried) / seconds[:, None])).mean(axis=0)
    return tried[np.argmin(wrong)]


def main():
    models = {}
    for link in GPUS:
        lines, rows = fitted(link, (2, 4), START)
        reached = f"  switch {SWITCH[link] / LINK[link]:.3f}" if link in SWITCH else ""
        print(f"{link}  copy {lines.copy:.3f}{reached}")
        for protocol, (launch, step, share) in zip(PAYLOAD, lines.protocols, strict=True):
            us = f"launch {launch * 1e6:7.2f} us  step {step * 1e6:6.3f} us"
            print(f"  {protocol:7s} {us}  share {share:.3f}")
        own = PredictionErrors.of(predict_rows(lines, rows, link), [r[3] for r in rows])
        print(f"  own rows: {own}")
        base, _ = fitted(link, (2, 4), ONE_LINE)
        models[link] = {"datasheet": DATASHEET, "one line": base, "fitted": lines}
    models["nvlink5"] = models["nvlink4"]  # nothing of it was fitted
    own = [curve for gpus in GPUS.values() for gpu in gpus for curve in unseen(gpu)]
    for curve in [*framework(), *superbench(), *third(), *own]:
        judge(curve, models[curve.link])


def compare_forms():
    """Print errors of 4-GPU predictions from 2-GPU fits, with and without the copy."""
    for link in GPUS:
        rows = [row for gpu in GPUS[link] for row in table(gpu, (4,))]
        for name, start in (("no copy", START[:-1]), ("copy", START)):
            lines, _ = fitted(link, (2,), start, search=ROUGH)
            print(
                link,
                name,
                PredictionErrors.of(predict_rows(lines, rows, link), [r[3] for r in rows]),
            )


if __name__ == "__main__":
    compare_forms() if "--forms" in sys.argv else main()
