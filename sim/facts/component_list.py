"""List of all components of a system, stored as a few distinct parts and their copies.

Machines are mostly equal, so the list stores each distinct part once, and for each component the
index of its part. Only the name and the machine are stored per component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .component import Component
from .part_names import ConcatenatedNames, ListedNames, MachineNames, NameIndex, Names

T = TypeVar("T")
OWN = ("name", "location")  # stored per component; of the location only the node
FACTS = (*(f.name for f in fields(Component) if f.name not in OWN), "pool", "rail", "role")


class ComponentList(Sequence[Component]):
    """Sequence of components, indexed by component number.

    Parameters
    ----------
    parts : the distinct parts; each is used by at least one component
    part_index : (n,) index into ``parts`` of each component
    names : names of the components, by number

    Examples
    --------
    >>> from .component import Location
    >>> gpu = Component("node0.gpu0", "gpu", slots=1, location=Location("node0"))
    >>> machines = ComponentList.of_machines([gpu], 0, 3)
    >>> machines[2].name, machines[2].node, machines.column(lambda part: part.slots or 0).tolist()
    ('node2.gpu0', 'node2', [1, 1, 1])
    """

    def __init__(self, parts: Sequence[Component], part_index: NDArray[np.integer], names: Names):
        self.parts, self.part_index, self.names = tuple(parts), part_index.astype(np.int32), names

    @classmethod
    def of(cls, components: Iterable[Component]) -> ComponentList:
        """Component list from single components."""
        if isinstance(components, cls):
            return components
        parts = tuple(components)
        names = ListedNames([c.name for c in parts], [c.node for c in parts])
        return cls(parts, np.arange(len(parts)), names)

    @classmethod
    def of_machines(cls, parts: Sequence[Component], first: int, machines: int) -> ComponentList:
        """Component list of several equal machines.

        Parameters
        ----------
        parts : components of machine number ``first``, whose name is ``node{first}``
        """
        cut = len(f"node{first}")
        names = MachineNames(first, machines, [c.name[cut:] for c in parts])
        return cls(parts, np.tile(np.arange(len(parts)), machines), names)

    @classmethod
    def concatenate(cls, blocks: Sequence[ComponentList]) -> ComponentList:
        """Concatenation of several component lists."""
        begins = np.cumsum([0, *(len(block.parts) for block in blocks)]).tolist()
        which = [block.part_index + begin for block, begin in zip(blocks, begins, strict=False)]
        return cls(
            [part for block in blocks for part in block.parts],
            np.concatenate([np.zeros(0, np.int32), *which]),
            ConcatenatedNames([block.names for block in blocks]),
        )

    def __len__(self) -> int:
        return len(self.part_index)

    @overload
    def __getitem__(self, at: int) -> Component: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Component]: ...
    def __getitem__(self, at: int | slice) -> Component | Sequence[Component]:
        """Component by number, or several by a slice."""
        if isinstance(at, slice):
            return tuple(self._component(i) for i in range(*at.indices(len(self))))
        i = int(at) + len(self) * (at < 0)
        if not 0 <= i < len(self):
            raise IndexError(at)
        return self._component(i)

    def _component(self, number: int) -> Component:
        part, name = self.parts[int(self.part_index[number])], self.names.name(number)
        return part if part.name == name else part.renamed(name, node=self.names.node(number))

    def __iter__(self) -> Iterator[Component]:
        """Iterator over all components; each is created on access."""
        return map(self._component, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """True if the other sequence has equal components in the same order."""
        if other is self:
            return True
        if not isinstance(other, (ComponentList, tuple)) or len(other) != len(self):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Text of all components, as of a tuple."""
        return repr(tuple(self))

    @cached_property
    def by_name(self) -> Mapping[str, int]:
        """Component number by name."""
        return NameIndex(self.names)

    def column(self, fact: Callable[[Component], T], dtype: Any = None) -> NDArray[Any]:
        """Value of a function for each component, shape (n,); called once per distinct part.

        The function may therefore not depend on the component's name or machine.

        >>> links = [Component(f"link{i}", "link", rate=1e9 * (i + 1)) for i in range(2)]
        >>> ComponentList.of(links).column(lambda part: part.rate, float).tolist()
        [1000000000.0, 2000000000.0]
        """
        each = np.empty(len(self.parts), object) if dtype is object else None
        if each is None:
            return np.array([fact(part) for part in self.parts], dtype)[self.part_index]
        each[:] = [fact(part) for part in self.parts]
        return each[self.part_index]

    def column_of(
        self, numbers: NDArray[np.integer], fact: Callable[[Component], T], dtype: Any = None
    ) -> NDArray[Any]:
        """Value of a function for selected components; see :meth:`column`."""
        used, which = np.unique(self.part_index[numbers], return_inverse=True)
        return np.array([fact(self.parts[k]) for k in used.tolist()], dtype)[which]

    def matching(
        self, predicate: Callable[[Component], bool], by_digits: bool
    ) -> NDArray[np.int64]:
        """Numbers of the components for which a predicate is true, ascending.

        Parameters
        ----------
        by_digits : True if the predicate may differ between names that differ only in their digits
        """
        if by_digits:
            return np.array([i for i, c in enumerate(self) if predicate(c)], np.int64)
        some, which = self.names.names_up_to_digits()
        return np.flatnonzero(np.array([predicate(self[i]) for i in some.tolist()], bool)[which])

    def with_changed(
        self, numbers: NDArray[np.integer] | Sequence[int], change: Callable[[Component], Component]
    ) -> ComponentList:
        """Copy in which a function changed some components; the list itself if nothing changed.

        Parameters
        ----------
        change : function from a component to its changed version; called once per distinct part

        Examples
        --------
        >>> links = ComponentList.of([Component(f"link{i}", "link", rate=1e9) for i in range(3)])
        >>> slow = links.with_changed([1], lambda link: link.renamed(link.name, rate=5e8))
        >>> [c.rate for c in slow], len(slow.parts)
        ([1000000000.0, 500000000.0, 1000000000.0], 3)
        """
        chosen, which = np.asarray(numbers, np.int64), self.part_index.copy()
        parts = list(self.parts)
        for k in np.flatnonzero(np.bincount(self.part_index[chosen], minlength=1)).tolist():
            made = change(self.parts[k])
            if made != self.parts[k]:
                which[chosen[self.part_index[chosen] == k]] = len(parts)
                parts.append(made)
        if len(parts) == len(self.parts):
            return self
        return self._without_unused_parts(parts, which)

    def with_replaced(self, components: Mapping[int, Component]) -> ComponentList:
        """Copy in which some components are replaced, by number; the list itself if all are equal.

        A new component must have the name of the one that it replaces.
        """
        which, parts = self.part_index.copy(), list(self.parts)
        seen: dict[tuple[Any, ...], int] = {}
        for number, made in components.items():
            if made == self[number]:
                continue
            facts = tuple(getattr(made, name) for name in FACTS)
            if facts not in seen:
                seen[facts] = len(parts)
                parts.append(made)
            which[number] = seen[facts]
        return self._without_unused_parts(parts, which) if seen else self

    def _without_unused_parts(
        self, parts: Sequence[Component], which: NDArray[np.int32]
    ) -> ComponentList:
        """Component list without the parts that no component uses."""
        used = np.bincount(which, minlength=len(parts)) > 0
        number = np.cumsum(used) - 1
        kept = [part for part, is_used in zip(parts, used.tolist(), strict=True) if is_used]
        return ComponentList(kept, number[which], self.names)
