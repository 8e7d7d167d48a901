"""Choice between the algorithms and protocols of a collective: pinned ones, and the quickest."""

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
    """Algorithms and protocols that the user pins, in place of the automatic choice.

    Parameters
    ----------
    by_collective : (algorithm, protocol) pinned for each collective; protocol "" allows any

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
        """Parse a pin such as ``ring/ll128`` or ``all-reduce=tree, all-gather=ring``; "" for none.

        A pin without a collective applies to every collective that has the algorithm.

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
        """True if an algorithm may be used with this protocol; protocol "" stands for any."""
        name, only = self.by_collective.get(collective, (algorithm, ""))
        return name == algorithm and (not only or not protocol or only == protocol)

    def text(self, collective: str) -> str:
        """Pin of a collective in the user's notation, such as ``ring/ll128``; "" for none."""
        return "/".join(filter(None, self.by_collective.get(collective, ())))


def _known(what: str, value: str, allowed: Mapping[str, object]) -> None:
    if value not in allowed:
        raise BackendError(
            f"fabric: algorithm: {what} {value!r} is unknown; take one of {list(allowed)}"
        )


def first_minimum(seconds: Floats) -> NDArray[np.int64]:
    """Index of the quickest candidate for each size, shape (n,); the first one on a tie.

    Parameters
    ----------
    seconds : time of each candidate, shape (candidates, n), in s
    """
    return np.asarray(np.argmin(seconds, axis=0), np.int64)
