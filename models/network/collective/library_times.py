"""Times of collectives as a function of library settings, for repeated evaluation in fits."""

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
    """Fabric that caches the link loads of algorithms, which do not depend on its settings."""

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
    """Times of collectives on one system, as a function of library settings.

    Parameters
    ----------
    system : system on which the collectives run
    settings : fixed settings of the ``fabric`` backend, in SI units

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
        """Time of a collective for each size, shape (n,), in s.

        Parameters
        ----------
        changed : settings that differ from the fixed ones, by dotted name
        ranks : indices of the participating GPUs
        """
        fabric = construct_with_groups(
            _CachedLoadFabric, merge_settings(self.settings, unflatten_settings(changed))
        )
        fabric.loads = self.loads
        members = tuple(self.system.numbers[r] for r in ranks)
        return fabric.seconds(collective, members, size, self.system)
