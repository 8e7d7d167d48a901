"""Predict gloo collectives in virtual time from two ranks, and compare with the lab's recordings.

Usage: python -m foretrace.calibration.judge.lab_gloo

Four predictions of the same ops: the lower bound of a ring, a ring with two constants fitted on two
ranks, the time of two ranks (a constant), and a message-level model of gloo with one constant
fitted on two ranks. The call times of the ranks are inputs, as recorded; the duration after them is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from foretrace.hil.lab.campaign_recording import bundled_recording
from foretrace.hil.sample import Sample
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.library import Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.switch import Switch, star
from foretrace.plugins.gloo.messages import Lan, all_reduce_end_times
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

from ..rows.lab_rows import Score, mape, measured, parts, table

PORT = 1.25e9  # B/s of every port
WIRE = 5e-6  # s of every port
SEGMENT = 1448 / 1514  # TCP's payload of a full frame with time stamps
TICK = 256e-9  # s that reading the clock takes in virtual time, where nothing else takes any
SLACK = 50e-6  # s that Linux lets a sleeper sleep longer (prctl(2), timer slack)
RANKS = (2, 4, 8)
Came = list[list[float]]  # of each rank: when it began, and of a step when each bucket was there


@dataclass(frozen=True)
class Op:
    """One op of a recording.

    Parameters
    ----------
    size : size in B; for a step, that of one bucket
    forward, backward, update : times in s; an all-reduce alone has none
    """

    name: str
    size: int
    buckets: int = 0
    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0

    @property
    def computing(self) -> float:
        """Time in s that the op sleeps in place of computing."""
        return self.forward + self.buckets * self.backward + self.update

    @property
    def label(self) -> str:
        """Name of the op in tables."""
        step = f"backward {self.backward * 1e6:g} us"
        return step if self.buckets else f"{self.size >> 10} KiB"


def op_of(signature: str) -> Op:
    """Op described by a signature of the recording."""
    name, told, size = parts(signature)
    if name != "step":
        return Op(name, size)
    seconds = (float(told[f"{k}_us"]) * 1e-6 for k in ("forward", "backward", "update"))
    return Op(name, size, int(told["buckets"]), *seconds)


# gloo's messages ---------------------------------------------------------------------------------


def messages(op: Op, call_times: Came, message: float) -> float:
    """Time in s from the last rank's start to the last rank's end, without computing."""
    lan = Lan(len(call_times), PORT, WIRE, message)
    calls = [row[1:] for row in call_times] if op.buckets else call_times
    end = max(max(row) for row in all_reduce_end_times(lan, op.size, calls))
    rest = op.update + SLACK if op.buckets else 0.0
    return end + rest - max(row[0] for row in call_times) - op.computing


def arrivals(sample: Sample) -> list[Came]:
    """Time in s at which each rank entered each call."""
    return [[[at * 1e-9 for at in row] for row in call] for call in sample.facts["came_ns"]]


def mechanism(ranks: int, message: float) -> Iterator[Score]:
    """Scores of the message-level model for every op: median over starts of each start's median."""
    recording = bundled_recording(name_of(ranks))
    starts: dict[tuple[str, str], list[float]] = {}
    for sample in recording.samples:
        op = op_of(sample.signature)
        found = [messages(op, call_times, message) for call_times in arrivals(sample)]
        starts.setdefault(sample.key, []).append(float(np.median(found)))
    for key, (seconds, spread) in measured(recording).items():
        yield _score(op_of(key[0]), float(np.median(starts[key])), seconds, spread)


def message_of(ranks: int = 2) -> float:
    """Handling time per message in s, fitted to all-reduces of two ranks."""
    truth = _bare_all_reduces(measured(bundled_recording(name_of(ranks))))
    at_once = [[0.0]] * ranks

    def off(ticks: int) -> float:
        errors = [messages(Op("", n), at_once, ticks * TICK) / t - 1 for n, t in truth.items()]
        return float(np.square(errors).sum())

    return min(range(24), key=off) * TICK


# A ring of a fabric that links share -------------------------------------------------------------


@dataclass(frozen=True)
class Ring:
    """Library costs of a ring: time per step, and fraction of the rate."""

    step: float = 0.0
    efficiency: float = 1.0


def ring(ranks: int, op: Op, known: Ring) -> float:
    """Time of an all-reduce in s, or of a step without its computing."""
    build, last = Builder("gloo"), [[] for _ in range(ranks)]
    before: list[int] = []
    for seconds in [op.forward + op.backward, *[op.backward] * (op.buckets - 1)]:
        last = [[_add_sleep(build, r, seconds, last[r])] for r in range(ranks)]
        before = [_reduce(build, op.size, [[*rows, *before] for rows in last])]
    for rank in range(ranks):
        _add_sleep(build, rank, op.update, [*last[rank], *before])
    fabric = Fabric(
        algorithms="ring", simple=Protocol(step=known.step, efficiency=known.efficiency)
    )
    port = Switch(bandwidth=PORT, latency=WIRE, ports=ranks, efficiency=SEGMENT)
    system = star(ranks, Link(bandwidth=1e15, latency=0.0), port, slots=2)
    run = Simulation(system, {"fabric": fabric}, engine="reference").run(build.graph())
    return float(run.makespan) - op.computing


def _add_sleep(build: Builder, rank: int, seconds: float, after: list[int]) -> int:
    return build.op(Kind.DELAY, rank=rank, duration=seconds, after=tuple(after))


def _reduce(build: Builder, size: int, after: list[list[int]]) -> int:
    members = [Member(rank, 1, tuple(rows)) for rank, rows in enumerate(after)]
    text = f"collective:all-reduce fp32[{size // 4}]"
    return build.collective(members, bytes=float(size), signature=text)


def ring_of(ranks: int = 2) -> Ring:
    """Ring costs fitted to two ranks: time per step in s, and fraction of the rate."""
    truth = _bare_all_reduces(measured(bundled_recording(name_of(ranks))))
    sizes, times = np.array(list(truth), float), np.array(list(truth.values()))
    steps, share = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
    terms = np.column_stack([np.full(len(sizes), steps), share * sizes / (PORT * SEGMENT)])
    each, slower = np.linalg.lstsq(terms / times[:, None], np.ones(len(sizes)), rcond=None)[0]
    return Ring(step=max(0.0, float(each) - WIRE), efficiency=min(1.0, 1 / float(slower)))


# Scores ------------------------------------------------------------------------------------------


def name_of(ranks: int) -> str:
    """Name of the recording with this number of ranks."""
    return f"gloo-{ranks}x10gbit"


def _bare_all_reduces(found: Mapping[tuple[str, str], tuple[float, float]]) -> dict[int, float]:
    """Time in s of all-reduces without computing, by size in B."""
    ops = {op_of(signature): seconds for (signature, _), (seconds, _) in found.items()}
    return {op.size: seconds for op, seconds in ops.items() if not op.buckets}


def _score(op: Op, predicted: float, seconds: float, spread: float) -> Score:
    """Score of an op; for a step, of the communication that its computing does not hide."""
    exposed = seconds - op.computing
    return Score(op.label, predicted, exposed, spread * seconds / exposed)


def simple(ranks: int, predict: Callable[[Op], float]) -> Iterator[Score]:
    """Scores of a prediction that does not use the ranks' call times."""
    for (signature, _), (seconds, spread) in measured(bundled_recording(name_of(ranks))).items():
        op = op_of(signature)
        yield _score(op, predict(op), seconds, spread)


def constant(op: Op) -> float:
    """Time in s that two ranks took, as a constant prediction for more ranks."""
    found = {
        op_of(s): seconds
        for (s, _), (seconds, _) in measured(bundled_recording(name_of(2))).items()
    }
    return found[op] - op.computing


def scores(ranks: int) -> dict[str, list[Score]]:
    """Scores of each prediction: all-reduces by size, steps by their backward time."""
    fitted, message = ring_of(), message_of()
    return {
        "ring bound": list(simple(ranks, lambda op: ring(ranks, op, Ring()))),
        "ring fitted": list(simple(ranks, lambda op: ring(ranks, op, fitted))),
        "constant": list(simple(ranks, constant)),
        "at once": list(simple(ranks, lambda op: messages(op, at_once(ranks, op), message))),
        "messages": list(mechanism(ranks, message)),
    }


def at_once(ranks: int, op: Op) -> Came:
    """Call times if all ranks start together, and every sleep has its typical delay."""
    first = op.forward + op.backward + 2 * SLACK
    buckets = [first + k * (op.backward + SLACK) for k in range(op.buckets)]
    return [[0.0, *buckets]] * ranks


def bare(found: list[Score]) -> list[Score]:
    """Scores of all-reduces without computing."""
    return [s for s in found if s.op.endswith("KiB")]


def exposed(found: list[Score]) -> list[Score]:
    """Scores of the communication in steps that is not hidden by computing."""
    return [s for s in found if s not in bare(found)]


def main() -> None:
    """Print all tables."""
    known = ring_of()
    print(f"ring fitted on two ranks: {known.step * 1e6:.1f} us a step, {known.efficiency:.1%}")
    print(f"messages fitted on two ranks: {message_of() * 1e6:.2f} us each")
    for ranks in RANKS:
        for word, found in scores(ranks).items():
            table(f"gloo, {ranks} ranks, {word}: mean error alone {mape(bare(found)):.1%}, exposed "
                  f"{mape(exposed(found)):.1%}", found)  # fmt: skip


if __name__ == "__main__":
    main()
