"""Uncertainty of a run: effects of the errors of its parts on its answer and its changes.

The errors of one kind of part are the same in every variant, so that a change is varied as a pair:
a network that is predicted 10 % too quick is so with and without the other GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.compute.families import Families
from ...models.compute.recorded import Recorded
from ...sim.analysis.sensitivity import altered
from ...sim.binding import bind
from ...sim.simulation import Simulation
from ..config.scenario import Scenario
from .samples import headline
from .summary import FEWEST, Value, interval
from .variant import Variant
from .variants import VariantResults

if TYPE_CHECKING:
    from .map_function import MapFunction

COST = "cost_per_million_tokens"
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Tried:
    """Results of a variant, and its answers with each kind of part slower or faster by its error.

    Parameters
    ----------
    of : Measured
    times : (slower, quicker) answers by kind of part, each wrong by its known error
    """

    of: VariantResults
    times: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def answer(self) -> float:
        """The number that decides, with durations as recorded."""
        return self.of.point.answer.of(self.of.samples)

    def widened(self, value: Value, grows: bool = False) -> Value:
        """Value with its interval widened by the model errors of the parts.

        Parameters
        ----------
        grows : with the answer
        """
        if not self.times:
            return value
        own = self.answer
        per = value.value / own if grows else 1.0
        moved = [[(t - own) * per for t in pair] for pair in self.times.values()]
        bounds = widened(value.value, value.interval, moved)
        return replace(value, interval=bounds, interval_of=(*value.interval_of, "model"))


def widened(
    value: float, bounds: Sequence[float] | None, moved: Iterable[Sequence[float]]
) -> Bounds:
    """An interval and independent deviations, added as squares, each side for itself.

    Parameters
    ----------
    bounds : what is known without the deviations; None for nothing
    moved : what each source of error does, one way and the other

    Examples
    --------
    >>> widened(10.0, (7.0, 10.0), [(4.0, -4.0), (3.0, 1.0)])
    (5.0, 15.0)
    """
    a, b = bounds or (value, value)
    moved = list(moved)
    low = sum(min(0.0, *m) ** 2 for m in moved)
    high = sum(max(0.0, *m) ** 2 for m in moved)
    return value - ((value - a) ** 2 + low) ** 0.5, value + ((b - value) ** 2 + high) ** 0.5


def with_errors(of: VariantResults, errors: Mapping[str, float], each: MapFunction) -> Tried:
    """Run a point again with each kind of part as wrong as it is known to be, either way.

    Fitted families of ops are each wrong by what their fit missed of what it had not seen, and by
    what they find in the caches, where that is known.

    Parameters
    ----------
    errors : relative, by kind of part
    """
    if of.point.coupled is not None:
        return Tried(of)
    simulation = of.point.simulation
    kinds = predicted(simulation)
    ways = {
        kind: (
            altered(simulation, kinds[kind], 1 / (1 + e)),
            altered(simulation, kinds[kind], 1 + e),
        )
        for kind, e in errors.items()
        if kind in kinds
    }
    ways |= _fitted(simulation)
    times = [*each(lambda s: _answer(of.point.on(s)), [s for w in ways.values() for s in w])]
    return Tried(of, dict(zip(ways, zip(times[::2], times[1::2], strict=True), strict=True)))


def _answer(point: Variant) -> float:
    return headline(point, point.run())


def _fitted(simulation: Simulation) -> dict[str, tuple[Simulation, Simulation]]:
    """Simulations, slower and quicker, for each uncertain part of fitted families of ops."""
    found: dict[int, dict[str, tuple[Families, Families]]] = {}
    for one in simulation.backends.values():
        if isinstance(one, Families):
            one.open(simulation.system)
            found[id(one)] = one.doubts()

    def other(name: str, way: int) -> Simulation:
        backends = {
            key: found[id(b)][name][way] if name in found.get(id(b), {}) else b
            for key, b in simulation.backends.items()
        }
        return replace(simulation, backends=backends)

    names = dict.fromkeys(name for doubts in found.values() for name in doubts)
    return {name: (other(name, 0), other(name, 1)) for name in names}


def change(base: Tried, of: Tried) -> dict[str, Any]:
    """Change of a point against the base, with its interval.

    It holds jitter, over paired replicas, and the errors of the parts, the same in both.
    """
    answer = base.of.point.answer

    def ratio(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        was, is_ = answer.of(a), answer.of(b)
        return is_ / was - 1 if was else 0.0 if is_ == was else float("inf")

    drawn = [ratio(a, b) for a, b in zip(base.of.replicas, of.of.replicas, strict=False)]
    enough = len(drawn) >= FEWEST
    value = float(np.median(drawn)) if enough else ratio(base.of.samples, of.of.samples)
    moved = _moved(base, of)
    held = interval(drawn)
    return {
        "of": answer.metric,
        "value": value,
        "interval": widened(value, held, moved) if moved else held,
        "interval_of": ["jitter"] * enough + ["model"] * bool(moved),
    }


def _moved(base: Tried, of: Tried) -> list[Bounds]:
    """Deviations of the change by the error of each kind of part, one way and the other."""
    was, is_ = base.answer, of.answer
    pairs = [
        (base.times.get(kind, (was, was)), of.times.get(kind, (is_, is_)))
        for kind in dict.fromkeys((*base.times, *of.times))
    ]
    found = [tuple(b / a - is_ / was for a, b in zip(*pair, strict=True)) for pair in pairs]
    return [(slow, quick) for slow, quick in found]


def model_errors(scenarios: Iterable[Scenario]) -> dict[str, float]:
    """Relative error of each kind of part, where its values say one: the largest of all variants.

    What was merely written down from a datasheet, or assumed, has none.
    """
    found: dict[str, float] = {}
    for path, origin in (o for s in scenarios for o in s.origins.items()):
        error = origin.source.share if origin.source else None
        parts = path.split(".")
        if error is not None and parts[0] == "cluster" and len(parts) > 2:
            kind = kind_of(path)
            found[kind] = max(found.get(kind, 0.0), error)
    return found


def kind_of(path: str) -> str:
    """The kind of component that a setting of the cluster is about; "" for none.

    >>> kind_of("cluster.node.nic.bandwidth"), kind_of("cluster.fabric.library.step")
    ('nic', 'fabric')
    >>> kind_of("cluster.kinds.trainer.nic.bandwidth")
    'nic'
    """
    parts = path.split(".")
    if parts[:2] == ["cluster", "kinds"]:
        del parts[1]  # as of one kind
    if parts[0] != "cluster" or len(parts) < 3:
        return ""
    return "fabric" if parts[2] == "library" else parts[2]  # who drives the fabric


def groups(simulation: Simulation) -> dict[str, list[int]]:
    """Components by kind, in the order in which the system lists them."""
    found: dict[str, list[int]] = {}
    for i, part in enumerate(simulation.system.components):
        found.setdefault(part.kind, []).append(i)
    return found


def predicted(simulation: Simulation) -> dict[str, list[int]]:
    """Components by kind, but for those whose values predict nothing.

    Those last as recorded, or as families of ops that were fitted, which have errors of their own.
    """
    bound = bind(simulation.system, simulation.backends)
    return {
        kind: rows
        for kind, rows in groups(simulation).items()
        if not all(isinstance(bound[i], Recorded | Families) for i in rows)
    }
