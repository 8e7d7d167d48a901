"""Stores of a machine: memory that holds named entries, such as blocks of a prefix cache."""

from __future__ import annotations

from collections.abc import Iterable

from ...sim.facts.eviction.store import Store
from ...sim.facts.system import Component
from ...sim.units import Bytes
from ..parts import NodePart, part


@part("store")
class StorePart(NodePart):
    """Memory that holds named, sized entries, which processes hold, share and evict.

    Parameters
    ----------
    size : Bytes
        Total size of the entries that fit.
    block : Bytes
        Unit in which entries are counted, such as a block of a KV cache; 0 counts bytes.
    eviction : str
        Rule that says which entry without owners goes first: ``lru``, ``oldest``, ``window``,
        ``order``, or a rule of a plug-in.

    Examples
    --------
    >>> (cache,) = StorePart(size=64e9, block=2e6).components("node0.store0")
    >>> cache.total, cache.unit, cache.store.eviction
    (32000, 'block', 'lru')
    """

    priced_by = "size"

    def __init__(self, *, size: Bytes, block: Bytes = 0.0, eviction: str = "lru"):
        self.unit = "block" if block else "B"
        self.store = Store(int(size // (block or 1.0)), eviction)

    def components(self, name: str) -> Iterable[Component]:
        """One component, the store."""
        yield Component(name, "store", capacity=self.store, unit=self.unit)
