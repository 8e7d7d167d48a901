"""Choice among the ways to do a collective: what is pinned, and the first of the least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from .protocols import PAYLOAD, Floats
from .steps import ALGORITHMS


@dataclass(frozen=True)
class PinnedAlgorithms:
    """Algorithms, and protocols, that are taken whatever others would take.

    Parameters
    ----------
    by_collective : collective to (algorithm, protocol); protocol "" for any

    Examples
    --------
    >>> from . import collectives  # which imports every algorithm
    >>> pinned = PinnedAlgorithms.read("ring/ll128, all-to-all=pairwise")
    >>> pinned.allows("all-reduce", "ring", "ll128"), pinned.allows("all-reduce", "tree")
    (True, False)
    >>> pinned.allows("barrier", "dissemination"), pinned.text("all-gather")
    (True, 'ring/ll128')
    """

    by_collective: Mapping[str, tuple[str, str]]

    @classmethod
    def read(cls, text: str) -> PinnedAlgorithms:
        """Read ``ring``, ``ring/ll128``, ``all-reduce=tree, all-gather=ring``; "" pins nothing.

        Without a collective it is that of all that have the algorithm.

        Raises
        ------
        BackendError
            An unknown collective, algorithm or protocol.
        """
        found: dict[str, tuple[str, str]] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            head, equals, way = part.rpartition("=")
            name, _, protocol = way.strip().partition("/")
            _known("collective", head.strip() or next(iter(ALGORITHMS)), ALGORITHMS)
            able = [head.strip()] if equals else [c for c, own in ALGORITHMS.items() if name in own]
            there = (
                ALGORITHMS[able[0]] if equals else {n: 0 for c in ALGORITHMS.values() for n in c}
            )
            _known("algorithm", name, there)
            _known("protocol", protocol or "simple", PAYLOAD)
            found |= dict.fromkeys(able, (name, protocol))
        return cls(found)

    def allows(self, collective: str, algorithm: str, protocol: str = "") -> bool:
        """Whether a way may be taken; without a protocol, whether any of the algorithm may."""
        name, only = self.by_collective.get(collective, (algorithm, ""))
        return name == algorithm and (not only or not protocol or only == protocol)

    def text(self, collective: str) -> str:
        """What is pinned for a collective, as one writes it; "" for nothing."""
        return "/".join(filter(None, self.by_collective.get(collective, ())))


def _known(what: str, value: str, allowed: Mapping[str, object]) -> None:
    if value not in allowed:
        raise BackendError(
            f"fabric: algorithm: {what} {value!r} is unknown; take one of {list(allowed)}"
        )


def first_minimum(seconds: Floats) -> NDArray[np.int64]:
    """(n,) number of the first way that is quickest.

    Parameters
    ----------
    seconds : (ways, n)
    """
    return np.asarray(np.argmin(seconds, axis=0), np.int64)
