"""Component names by number and numbers by name, computed without storing every name."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Names(Sequence[str]):
    """Base class for a sequence of component names.

    Subclasses write ``__len__``, ``name``, ``node`` and ``find``.
    """

    def name(self, number: int) -> str:
        """Name of the component with the given number."""
        raise NotImplementedError

    def node(self, number: int) -> str:
        """Name of the machine that contains a component; "" between machines."""
        raise NotImplementedError

    def find(self, name: str) -> int:
        """Number of the component with the given name; -1 if there is none."""
        raise NotImplementedError

    def machines(self) -> Ints:
        """Machine number of each component, shape (n,); -1 between machines."""
        number: dict[str, int] = {"": -1}
        nodes = (self.node(i) for i in range(len(self)))
        return np.array([number.setdefault(node, len(number) - 1) for node in nodes], np.int64)

    def names_up_to_digits(self) -> tuple[Ints, Ints]:
        """Numbers of representative names, and for each name the index of its representative.

        A name differs from its representative only in digits. By default, each name represents
        itself.
        """
        every = np.arange(len(self))
        return every, every

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        """Name of a component by number, or several names by a slice."""
        if isinstance(at, slice):
            return tuple(self.name(i) for i in range(*at.indices(len(self))))
        i = int(at) + len(self) * (at < 0)
        if not 0 <= i < len(self):
            raise IndexError(at)
        return self.name(i)

    def __iter__(self) -> Iterator[str]:
        """Iterator over all names."""
        return map(self.name, range(len(self)))

    def __contains__(self, name: object) -> bool:
        """True if a component has this name."""
        return isinstance(name, str) and self.find(name) >= 0

    def __eq__(self, other: object) -> bool:
        """True if the other sequence has equal names in the same order."""
        if other is self:
            return True
        if not isinstance(other, (Names, tuple, list)) or len(other) != len(self):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Hash of the first name and the number of names."""
        return hash((len(self), self[0] if len(self) else ""))

    def __repr__(self) -> str:
        """Text of all names, as of a tuple."""
        return repr(tuple(self))


def names_by_number(
    names: Sequence[str], numbers: NDArray[np.integer], none_name: str
) -> NDArray[Any]:
    """Component names by number, shape (n,); number -1 becomes the text ``none_name``.

    >>> names_by_number(("a", "b"), np.array([1, -1, 1]), "-").tolist()
    ['b', '-', 'b']
    """
    used, which = np.unique(numbers, return_inverse=True)
    found = np.array([none_name if i < 0 else names[i] for i in used.tolist()], object)
    return found[which]


class ListedNames(Names):
    """Component names that are stored one by one.

    >>> names = ListedNames(("wire", "node0.gpu0"), ("", "node0"))
    >>> names.find("node0.gpu0"), names.find("gpu"), names[0]
    (1, -1, 'wire')
    """

    def __init__(self, names: Sequence[str], nodes: Sequence[str]):
        self._names, self._nodes = tuple(names), tuple(nodes)

    def __len__(self) -> int:
        return len(self._names)

    def name(self, number: int) -> str:
        """Name of the component with the given number."""
        return self._names[number]

    def node(self, number: int) -> str:
        """Name of the machine that contains a component; "" between machines."""
        return self._nodes[number]

    def find(self, name: str) -> int:
        """Number of the component with the given name; -1 if there is none."""
        return self._numbers.get(name, -1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        found = {name: i for i, name in enumerate(self._names)}
        if len(found) < len(self._names):
            twice = max(found, key=self._names.count)
            raise ValueError(f"two components are named {twice!r}; rename one")
        return found


class MachineNames(Names):
    """Component names of equal machines with consecutive numbers.

    Parameters
    ----------
    first, machines : number of the first machine, and number of machines
    suffixes : part of each component's name after the machine's name, equal for all machines

    Examples
    --------
    >>> names = MachineNames(4, 2, (".host", ".gpu0"))
    >>> list(names), names.node(3), names.find("node5.gpu0"), names.find("node05.gpu0")
    (['node4.host', 'node4.gpu0', 'node5.host', 'node5.gpu0'], 'node5', 3, -1)
    """

    def __init__(self, first: int, machines: int, suffixes: Sequence[str]):
        self._first, self._machines, self._suffixes = first, machines, tuple(suffixes)

    def __len__(self) -> int:
        return self._machines * len(self._suffixes)

    def name(self, number: int) -> str:
        """Name of the component with the given number."""
        machine, place = divmod(number, len(self._suffixes))
        return f"node{self._first + machine}{self._suffixes[place]}"

    def node(self, number: int) -> str:
        """Name of the machine that contains a component."""
        return f"node{self._first + number // len(self._suffixes)}"

    def find(self, name: str) -> int:
        """Number of the component with the given name; -1 if there is none."""
        told = re.match(r"node(0|[1-9]\d*)(?=\D)", name)
        machine = int(told[1]) - self._first if told else -1
        place = self._places.get(name[told.end() :], -1) if told else -1
        if place < 0 or not 0 <= machine < self._machines:
            return -1
        return machine * len(self._suffixes) + place

    def machines(self) -> Ints:
        """Machine number of each component, shape (n,), from 0."""
        return np.repeat(np.arange(self._machines), len(self._suffixes))

    def names_up_to_digits(self) -> tuple[Ints, Ints]:
        """Numbers of the first machine's names, and for each name its counterpart there."""
        own = np.arange(len(self._suffixes))
        return own, np.tile(own, self._machines)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {suffix: i for i, suffix in enumerate(self._suffixes)}


class ConcatenatedNames(Names):
    """Concatenation of several sequences of component names.

    >>> names = ConcatenatedNames([MachineNames(0, 2, (".gpu0",)), ListedNames(("fabric",), ("",))])
    >>> names[2], names.find("fabric"), [x.tolist() for x in names.names_up_to_digits()]
    ('fabric', 2, [[0, 2], [0, 0, 1]])
    """

    def __init__(self, blocks: Sequence[Names]):
        self._blocks = [block for block in blocks if len(block)]
        self._ends: list[int] = np.cumsum([len(block) for block in self._blocks]).tolist()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _at(self, number: int) -> tuple[Names, int]:
        k = bisect_right(self._ends, number)
        return self._blocks[k], number - (self._ends[k - 1] if k else 0)

    def name(self, number: int) -> str:
        """Name of the component with the given number."""
        block, own = self._at(number)
        return block.name(own)

    def node(self, number: int) -> str:
        """Name of the machine that contains a component; "" between machines."""
        block, own = self._at(number)
        return block.node(own)

    def find(self, name: str) -> int:
        """Number of the component with the given name; -1 if there is none."""
        for block, end in zip(self._blocks, self._ends, strict=True):
            if (found := block.find(name)) >= 0:
                return int(end - len(block) + found)
        return -1

    def machines(self) -> Ints:
        """Machine number of each component, shape (n,), -1 between machines.

        No machine spans two blocks.
        """
        found, used = [np.zeros(0, np.int64)], 0
        for block in self._blocks:
            own = block.machines()
            found.append(np.where(own >= 0, own + used, -1))
            used += int(own.max(initial=-1)) + 1
        return np.concatenate(found)

    def names_up_to_digits(self) -> tuple[Ints, Ints]:
        """Representative names of all blocks, and for each name the index of its representative."""
        some, which, used = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for block, end in zip(self._blocks, self._ends, strict=True):
            first, of = block.names_up_to_digits()
            some.append(first + end - len(block))
            which.append(of + used)
            used += len(first)
        return np.concatenate(some), np.concatenate(which)


class NameSubset(Names):
    """Names of selected components.

    Parameters
    ----------
    names : names of all components
    numbers : numbers of the selected components, ascending

    Examples
    --------
    >>> gpus = NameSubset(MachineNames(0, 2, (".host", ".gpu0")), np.array([1, 3]))
    >>> list(gpus), gpus.find("node1.gpu0"), gpus.find("node1.host")
    (['node0.gpu0', 'node1.gpu0'], 1, -1)
    """

    def __init__(self, names: Names, numbers: Ints):
        self.names, self.numbers = names, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def name(self, number: int) -> str:
        """Name of the selected component with the given index."""
        return self.names.name(int(self.numbers[number]))

    def node(self, number: int) -> str:
        """Name of the machine that contains a selected component."""
        return self.names.node(int(self.numbers[number]))

    def find(self, name: str) -> int:
        """Index of a name among the selected components; -1 if there is none."""
        found = self.names.find(name)
        at = int(np.searchsorted(self.numbers, found))
        return at if at < len(self) and self.numbers[at] == found else -1


class NameIndex(Mapping[str, int]):
    """Mapping from component name to component number.

    >>> index = NameIndex(MachineNames(0, 2, (".gpu0",)))
    >>> index["node1.gpu0"], "node2.gpu0" in index, dict(index)
    (1, False, {'node0.gpu0': 0, 'node1.gpu0': 1})
    """

    def __init__(self, names: Names):
        self._names = names

    def __getitem__(self, name: str) -> int:
        """Number of the component with the given name."""
        found = self._names.find(name) if isinstance(name, str) else -1
        if found < 0:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterator over all names."""
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class PartsByRole(Mapping[str, Mapping[str, str]]):
    """Mapping from GPU name to the names of its parts by role, such as its host or DMA engine.

    Parameters
    ----------
    gpus : names of the GPUs
    roles : for each role, the component number of each GPU's part, shape (gpus,); -1 for none

    Examples
    --------
    >>> names = MachineNames(0, 2, (".host", ".gpu0"))
    >>> parts = PartsByRole(NameSubset(names, np.array([1, 3])), {"host": np.array([0, 2])})
    >>> parts["node1.gpu0"]
    {'host': 'node1.host'}
    """

    def __init__(self, gpus: NameSubset, roles: Mapping[str, Ints]):
        self.gpus, self.roles = gpus, roles

    def __getitem__(self, gpu: str) -> dict[str, str]:
        """Names of a GPU's parts, by role."""
        at = self.gpus.find(gpu)
        if at < 0:
            raise KeyError(gpu)
        return {
            role: self.gpus.names.name(int(of[at]))
            for role, of in self.roles.items()
            if of[at] >= 0
        }

    def __iter__(self) -> Iterator[str]:
        """Iterator over the names of the GPUs."""
        return iter(self.gpus)

    def __len__(self) -> int:
        return len(self.gpus)

    def components_in_role(self, role: str, components: int) -> NDArray[np.int32]:
        """Array over all components: for a GPU, the number of its part with the role; else -1.

        Parameters
        ----------
        components : number of components of the system
        """
        found = np.full(components, -1, np.int32)
        if role in self.roles:
            found[self.gpus.numbers] = self.roles[role]
        return found

    def __eq__(self, other: Any) -> bool:
        """True if the other mapping has the same items."""
        return other is self or (isinstance(other, Mapping) and dict(self) == dict(other))

    __hash__ = None  # type: ignore[assignment]
