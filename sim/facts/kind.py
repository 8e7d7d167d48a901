"""Kinds of op and the roles that run them; plug-ins can add to both.

A kind is a small integer with a name. A role is the part of a rank that runs an op (its GPU, the
host, a copy engine, the cores of a NIC); it has a layer of the time breakdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

GPU, HOST, DMA = "gpu", "host", "dma"  # names of the built-in roles
ROLE_LAYERS = ("compute", "network", "copy", "host")
MOST = 256  # kinds, since they are stored in one byte
_NAME = re.compile("[a-z]+")  # as signatures allow


@dataclass(frozen=True)
class Role:
    """Part of a rank that runs ops, such as its GPU, host or copy engine.

    Parameters
    ----------
    name : str
        Name that components use; ``gpu`` is the GPU of the rank itself.
    layer : str
        Layer of the time breakdown that its ops count to: ``compute``, ``network``, ``copy`` or
        ``host``.

    Examples
    --------
    >>> ROLES["dma"].layer
    'copy'
    """

    name: str
    layer: str

    @staticmethod
    def register(name: str, *, layer: str) -> Role:
        """Register a role under the name that components, kinds and streams use.

        Raises
        ------
        ValueError
            The name is taken by a role of another layer, or the layer does not exist.

        Examples
        --------
        >>> Role.register("host", layer="network")
        Traceback (most recent call last):
        ValueError: two roles are named 'host', of layers 'host' and 'network'; take another name
        """
        if layer not in ROLE_LAYERS:
            raise ValueError(
                f"role {name!r}: layer is {layer!r}; give one of {', '.join(ROLE_LAYERS)}"
            )
        known = ROLES.setdefault(name, Role(name, layer))
        if known.layer != layer:
            raise ValueError(
                f"two roles are named {name!r}, of layers {known.layer!r} and {layer!r}; take "
                "another name"
            )
        return known


ROLES = {role.name: role for role in (Role(GPU, "compute"), Role(HOST, "host"), Role(DMA, "copy"))}
OUR_ROLES = tuple(ROLES)


class _ListedKinds(type):
    """Metaclass that lets a class be iterated, counted and indexed by name, like an enum."""

    __members__: Mapping[str, Kind]

    def __iter__(cls) -> Iterator[Kind]:
        return iter(cls.__members__.values())

    def __len__(cls) -> int:
        return len(cls.__members__)

    def __getitem__(cls, name: str) -> Kind:
        return cls.__members__[name]


_ALL: list[Kind] = []  # by number; kinds are never removed
_NUMBERED: dict[str, Kind] = {}  # the same by name


class Kind(int, metaclass=_ListedKinds):
    """Kind of an op; the text form is the lower-case name.

    Attributes
    ----------
    name : str
    runner : str
        Name of the role that runs ops of this kind, as registered.

    Examples
    --------
    >>> Kind.COPY, Kind(2).role, len(Kind) >= 8
    (<Kind.COPY: 2>, 'dma', True)
    """

    __members__ = MappingProxyType(_NUMBERED)
    name: str
    runner: str
    COMPUTE: ClassVar[Kind]
    HOST: ClassVar[Kind]
    COPY: ClassVar[Kind]
    SEND: ClassVar[Kind]
    RECV: ClassVar[Kind]
    COLLECTIVE: ClassVar[Kind]
    DELAY: ClassVar[Kind]
    GAP: ClassVar[Kind]

    def __new__(cls, number: int) -> Kind:
        """Kind with the given number."""
        if not 0 <= number < len(_ALL):
            raise ValueError(
                f"{number} is not the number of a kind of op; they are 0 to {len(_ALL) - 1}"
            )
        return _ALL[number]

    @property
    def role(self) -> str:
        """Role that runs these ops, unless their stream is named after a role; "" for none."""
        return self.runner if self.runner in ROLES else ""

    def __repr__(self) -> str:
        return f"<Kind.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return int.__repr__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ListedKinds.__getitem__, (Kind, self.name)

    @staticmethod
    def register(name: str, *, role: str) -> Kind:
        """Register a kind of op and the role that runs it.

        Parameters
        ----------
        name : lower-case letters, the first word of signatures of this kind
        role : name of a registered role

        Raises
        ------
        ValueError
            The name is taken or has other characters, the role is unknown, or there are too many
            kinds.

        Examples
        --------
        >>> Kind.register("copy", role="host")
        Traceback (most recent call last):
        ValueError: two kinds of op are named 'copy'; take another name
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"kind of op {name!r}: use only the letters a to z")
        if role not in ROLES:
            raise ValueError(
                f"kind of op {name!r}: no role is named {role!r}; register it first, or take one "
                f"of {', '.join(ROLES)}"
            )
        if name.upper() in OUR_KINDS or (name in KINDS and KINDS[name].runner != role):
            raise ValueError(f"two kinds of op are named {name!r}; take another name")
        kind = _NUMBERED.get(name.upper()) or _number_kind(name.upper(), role)
        kind.runner = role
        return KINDS.setdefault(name, kind)


def _number_kind(name: str, role: str) -> Kind:
    """Create a kind with the next free number."""
    if len(_NUMBERED) == MOST:
        raise ValueError(
            f"kind of op {name.lower()!r}: there are already {MOST} kinds, which is the maximum"
        )
    kind = int.__new__(Kind, len(_NUMBERED))
    kind.name, kind.runner = name, role
    _NUMBERED[name] = kind
    _ALL.append(kind)
    return kind


for _name, _role in (
    ("COMPUTE", GPU), ("HOST", HOST), ("COPY", DMA), ("SEND", ""), ("RECV", ""),
    ("COLLECTIVE", ""), ("DELAY", ""), ("GAP", ""),
):  # fmt: skip
    setattr(Kind, _name, _number_kind(_name, _role))
OUR_KINDS = tuple(_NUMBERED)

KINDS: dict[str, Kind] = {}
"""Kinds that plug-ins registered, by name."""


def kinds_with_role() -> tuple[Kind, ...]:
    """Kinds of op that a part of one rank runs; sends, recvs and collectives are not among them.

    >>> kinds_with_role()[:3]
    (<Kind.COMPUTE: 0>, <Kind.HOST: 1>, <Kind.COPY: 2>)
    """
    return tuple(kind for kind in Kind if kind.role)


def kind_names() -> NDArray[Any]:
    """Lower-case names of all kinds of op, shape (kinds,), by kind number.

    >>> kind_names()[:3].tolist()
    ['compute', 'host', 'copy']
    """
    return np.array([name.lower() for name in _NUMBERED], object)
