"""Parts of a machine: ``model:`` names a catalog entry, other keys override its values.

The settings of a kind of part are those of the backend that predicts it, plus a few facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, create_model

from ...models.network.part import pcie as pcie  # a kind of part of ours
from ...models.parts import PARTS, NodePart
from ...sim.facts.backend import Backend
from ...sim.units import Bytes, Watts
from .schema import Section, validation_error
from .settings import (
    backend_settings_model,
    constructor_model,
    group_model,
    known_backends,
    plain_settings,
)

Whole = Annotated[int, Field(ge=0)]


class GpuFacts(Section):
    """Facts about a GPU besides the settings of its backend."""

    memory: Bytes | None = Field(None, description="Memory size of one GPU.")
    streams: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Number of kernels that run at the same time."
    )
    copy_engines: Whole | None = Field(
        None, description="Number of copies that run at the same time, next to kernels."
    )
    power: Watts | None = Field(None, description="Power of the board at full load.")
    scaled_block: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Smallest block of an operand that can have its own scale in the tensor cores.",
    )
    core: bool | None = Field(
        None,
        description="True if kernels and the communication library share its compute time: a "
        "collective in flight slows kernels down.",
    )
    capacity: bool | None = Field(
        None,
        description="True if training jobs hold GPU memory from their start to their end, so that "
        "a job may wait for it. By default true if there are several training jobs.",
    )


class MemoryFacts(Section):
    """Facts about a memory; size 0 means that it is not present."""

    size: Bytes | None = Field(None, description="Capacity of one device.")
    power: Watts | None = Field(None, description="Power of one device at full load.")


class HostFacts(Section):
    """Facts about the host of a machine."""

    cores: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Number of threads that run at the same time."
    )
    memory: Bytes | None = Field(None, description="Size of its DRAM.")
    power: Watts | None = Field(
        None, description="Power of the machine without its GPUs, at full load."
    )


class OtherFacts(Section):
    """Facts about any other part."""

    power: Watts | None = Field(None, description="Power of one at full load.")


@dataclass(frozen=True)
class PartKind:
    """A kind of part: its settings, and the section of a scenario in which it may occur.

    Parameters
    ----------
    facts : settings in addition to those of the backends
    backends : names of the backends whose settings the part has
    place : section of the cluster that has it: ``node``, ``fabric`` or ``link``
    help : one-sentence description, shown by ``explain``
    priced_by : setting that gives the part's size, for prices per size; "" for none
    """

    facts: type[Section]
    backends: tuple[str, ...] = ()
    place: str = "node"
    help: str = ""
    priced_by: str = ""


OURS = {
    "gpu": PartKind(GpuFacts, ("roofline",), help="GPUs of the machine.", priced_by="memory"),
    "nic": PartKind(
        OtherFacts,
        ("nic",),
        help="Network adapters (NICs) of the machine; its GPUs share them evenly.",
    ),
    "cxl": PartKind(
        MemoryFacts,
        ("cxl", "memory"),
        help="CXL memory of the machine; ``size: 0 GB`` means none.",
        priced_by="size",
    ),
    "host": PartKind(
        HostFacts,
        ("host",),
        help="CPUs of the machine, and their costs per op.",
        priced_by="memory",
    ),
    "memory": PartKind(MemoryFacts, ("memory",), help="DRAM of the host.", priced_by="size"),
    "switch": PartKind(OtherFacts, ("switch",), place="fabric"),
    "link": PartKind(OtherFacts, ("link",), place="link"),
    "library": PartKind(OtherFacts, ("fabric",), place="fabric"),
}


class _Kinds(Mapping[str, PartKind]):
    """All kinds of part by name: built-in ones, and those that plug-ins registered."""

    def __getitem__(self, name: str) -> PartKind:
        return OURS[name] if name in OURS else _registered_kind(PARTS[name])

    def __iter__(self) -> Iterator[str]:
        return iter([*OURS, *(name for name in PARTS if name not in OURS)])

    def __len__(self) -> int:
        return len(list(iter(self)))


_registered: dict[type[NodePart], PartKind] = {}  # cache


def _registered_kind(cls: type[NodePart]) -> PartKind:
    if cls not in _registered:
        told = (cls.__doc__ or "").strip().partition("\n")[0]
        model = constructor_model(cls, optional=True)
        _registered[cls] = PartKind(model, help=told, priced_by=cls.priced_by)
    return _registered[cls]


KINDS: Mapping[str, PartKind] = _Kinds()
"""Every kind of part by name."""


def node_parts() -> tuple[str, ...]:
    """Names of the kinds of part that a machine can have.

    >>> node_parts()[:5]
    ('gpu', 'nic', 'cxl', 'host', 'memory')
    """
    return tuple(name for name, kind in KINDS.items() if kind.place == "node")


OWN = ("model", "count")


@dataclass(frozen=True)
class Part:
    """One kind of part of a machine, such as its GPUs, with the settings that are known.

    Parameters
    ----------
    kind : name in ``KINDS``, such as ``gpu`` or ``nic``
    model : name of its catalog entry; "" for none
    count : number in each machine
    settings : known settings in SI, by name
    """

    kind: str
    model: str = ""
    count: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary in the form of a scenario file."""
        return {"model": self.model, "count": self.count, **self.settings}

    def settings_for(self, backend: str) -> dict[str, Any]:
        """Settings of the part that a backend's constructor takes.

        >>> Part("nic", settings={"bandwidth": 25e9, "power": 20.0}).settings_for("nic")
        {'bandwidth': 25000000000.0}
        """
        return settings_taken(backend_settings_model(backend), self.settings)

    def backend(self) -> str:
        """Name of the backend that predicts the part.

        It is a backend whose required settings the part has, else the default of its kind.

        >>> Part("library", settings={"algorithms": "ring"}).backend()
        'fabric'
        """
        own, *others = (cls.registered_name for cls in part_backends(self.kind))
        required = {name: set(required_settings(name)) for name in others}
        return next(
            (name for name, keys in required.items() if keys and keys <= {*self.settings}), own
        )


def settings_taken(model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Subset of nested settings that a pydantic model accepts."""
    groups = {k: group_model(f) for k, f in model.model_fields.items() if k in settings}
    return {
        k: settings_taken(group, settings[k]) if group else settings[k]
        for k, group in groups.items()
    }


@cache
def entry_model(kind: str) -> type[Section]:
    """Pydantic model of a catalog entry of one kind: its facts and the settings of its backends.

    >>> entry_model("nic").allowed()[:3]
    ('power', 'bandwidth', 'latency')
    """
    told = KINDS[kind]
    fields: dict[str, Any] = {}
    models = (constructor_model(cls, optional=True) for cls in part_backends(kind))
    for model in (told.facts, *models):
        fields |= {k: f for k, f in model.field_definitions().items() if k not in fields}
    return create_model(f"{kind}_entry", __base__=Section, __doc__=f"A {kind}.", **fields)


@cache
def part_model(kind: str) -> type[Section]:
    """Pydantic model of one kind of part as a scenario file describes it.

    >>> part_model("nic").allowed()[:4]
    ('model', 'count', 'power', 'bandwidth')
    """
    own: dict[str, Any] = {
        "model": (str | None, Field(None, description=f"A name from `foretrace catalog {kind}`.")),
        "count": (Whole, Field(1, description="Number in each machine.")),
    }
    rest = entry_model(kind).field_definitions()
    return create_model(f"{kind}_part", __base__=Section, __doc__=f"A {kind}.", **own, **rest)


@dataclass(frozen=True)
class PartLink:
    """A link between two kinds of part inside a machine.

    Parameters
    ----------
    from_, to : kinds of part, such as ``gpu`` and ``nic``
    link : the link between each pair
    """

    from_: str
    to: str
    link: Part

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary in the form of a file: ``from``, ``to``, ``via`` and link settings."""
        return {"from": self.from_, "to": self.to, "via": self.link.model, **self.link.settings}


class ComponentOverride(Section):
    """Settings by which single components differ from the others of their kind.

    Parameters
    ----------
    slowdown : factor on durations, and divisor of rates
    down : True if the component has failed
    """

    slowdown: Annotated[float, Field(gt=0)] = 1.0
    """Factor on durations, and divisor of rates; 1.3 is 30 % slower."""
    down: bool = False
    """True if it has failed."""


@cache
def part_link_model() -> type[Section]:
    """Pydantic model of one entry of ``links`` in a scenario file."""
    own: dict[str, Any] = {
        "from_": (
            str,
            Field(
                alias="from",
                description=f"Part at one end of the link: {', '.join(node_parts())}.",
            ),
        ),
        "to": (str, Field(description="Part at the other end of the link.")),
        "via": (
            str | None,
            Field(None, description="Kind of link, a name from `foretrace catalog link`."),
        ),
    }
    rest = entry_model("link").field_definitions()
    return create_model("link", __base__=Section, __doc__=PartLink.__doc__, **own, **rest)


def read_part_link(data: Any, info: ValidationInfo) -> PartLink:
    """Read one entry of ``links``."""
    if not isinstance(data, dict):
        message = "a link needs keys; write it like {from: gpu, to: nic, via: pcie5-x16}"
        raise validation_error("mapping", message, value=data)
    model: Any = part_link_model().model_validate(data, context=info.context)
    told = plain_settings(model, only_given=True)
    given = {k: v for k, v in told.items() if k not in ("from_", "to", "via")}
    return PartLink(model.from_, model.to, Part("link", model.via or "", 1, given))


def required_settings(backend: str) -> list[str]:
    """Names of a backend's settings that have no default."""
    model = backend_settings_model(backend)
    return [name for name, field in model.model_fields.items() if field.is_required()]


def part_backends(kind: str) -> list[type[Backend]]:
    """Backend classes whose settings a kind of part has: built-in ones, then those of plug-ins.

    >>> [cls.__name__ for cls in part_backends("nic")]
    ['Nic']
    """
    known, own = known_backends(), KINDS[kind].backends
    claiming = [name for name, cls in known.items() if cls.answers_part == kind]
    return [known[name] for name in (*own, *claiming) if name in known]


def read_part(kind: str, data: Any, info: ValidationInfo) -> Part:
    """Read a part: a mapping of its keys, or the name of a catalog entry."""
    if isinstance(data, str):
        return Part(kind, data)
    if not isinstance(data, dict):
        message = f"a {kind} needs keys; write it like {{model: NAME, count: 8}}"
        raise validation_error("mapping", message, value=data)
    model = part_model(kind).model_validate(data, context=info.context)
    given = {k: v for k, v in plain_settings(model, only_given=True).items() if k not in OWN}
    return Part(kind, model.model or "", model.count, given)  # type: ignore[attr-defined]
