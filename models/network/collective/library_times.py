"""Times of collectives by the settings of a library: what a fit asks again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....sim.facts.system import System
from ....sim.setting_groups import construct_with_groups, merge_settings, unflatten_settings
from .collectives import Fabric
from .load import AlgorithmLoad, Members
from .protocols import Floats
from .steps import Algorithm

Loads = dict[tuple[Algorithm, Members], AlgorithmLoad]


class _CachedLoadFabric(Fabric):
    """A fabric that looks up what algorithms put on the links: no setting changes that."""

    loads: Loads

    def algorithm_load(
        self, algorithm: Algorithm, members: Members, system: System
    ) -> AlgorithmLoad:
        key = (algorithm, members)
        if key not in self.loads:
            self.loads[key] = super().algorithm_load(algorithm, members, system)
        return self.loads[key]


@dataclass
class LibraryTimes:
    """Times of collectives on one machine, by settings.

    Parameters
    ----------
    system : the machine
    settings : of the ``fabric`` backend, SI, that stand still

    Examples
    --------
    >>> from ..part.link import Link
    >>> from ..part.switch import Switch, star
    >>> link = Link(bandwidth=1e9, latency=1e-6)
    >>> times = LibraryTimes(star(4, link, Switch(bandwidth=1e9, latency=0, ports=4)))
    >>> import numpy as np
    >>> size = np.array([4e6])
    >>> times.seconds({"simple.launch": 1e-5}, "all-reduce", range(4), size).round(6).tolist()
    [0.006016]
    """

    system: System
    settings: Mapping[str, Any] = field(default_factory=lambda: {"algorithms": "ring"})
    loads: Loads = field(default_factory=dict)

    def seconds(
        self, changed: Mapping[str, float], collective: str, ranks: Iterable[int], size: Floats
    ) -> Floats:
        """(n,) seconds of a collective of such sizes among some of the GPUs, by their numbers.

        Parameters
        ----------
        changed : settings by dotted name
        """
        fabric = construct_with_groups(
            _CachedLoadFabric, merge_settings(self.settings, unflatten_settings(changed))
        )
        fabric.loads = self.loads
        members = tuple(self.system.numbers[r] for r in ranks)
        return fabric.seconds(collective, members, size, self.system)
