"""Section ``backends: {GLOB: {use: NAME, …}}``: the backend of each component."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PlainValidator, ValidationInfo

from ...models.compute.chain import Chain
from ...sim.facts.backend import Backend
from ...sim.facts.system import SELECTED, Component, System, depends_on_digits, matches_pattern
from ...sim.setting_groups import construct_with_groups, merge_settings
from .choice import ChoiceKind
from .part_specs import Part
from .schema import Many, Section, validation_error
from .settings import backend_settings_model, known_backends, missing_keys

T = TypeVar("T")
CHAIN = Chain.registered_name
WILD = re.compile(r"[*?[]")  # in a glob
RENAMED = {"op-database": "table"}
BACKEND = ChoiceKind("backend", known_backends, partial=True, renamed=RENAMED)


@dataclass(frozen=True)
class Binding:
    """A backend chosen by name, with its settings in SI units.

    Parameters
    ----------
    use : name of the backend
    settings : constructor arguments given in the scenario; the component's part may supply others
    links : backends of a chain, in order; empty for a single backend
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[Binding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary in the form of a scenario file."""
        if self.links:
            return {"use": [link.to_dict() for link in self.links]}
        return {"use": self.use, **self.settings}

    @property
    def links_or_self(self) -> tuple[Binding, ...]:
        """The backends of a chain in order, or the binding itself if it is not a chain."""
        return self.links or (self,)

    def make(self) -> Backend:
        """Construct the backend; this reads no file and opens no device.

        >>> Binding("link", {"bandwidth": 1e9, "latency": 0.0}).make().rate
        1000000000.0
        """
        if self.links:
            return Chain(links=[link.make() for link in self.links])
        return construct_with_groups(known_backends()[self.use], self.settings)


def read_binding(data: Any, info: ValidationInfo) -> Binding:
    """Read a binding: a name, ``{use: NAME, …}``, or a list of these, which is a chain."""
    if isinstance(data, str | list | tuple):
        data = {"use": data}
    name = data.get("use") if isinstance(data, dict) else None
    if isinstance(name, list | tuple):
        return Binding(CHAIN, links=_ChainForm.model_validate(data, context=info.context).use)
    if name == CHAIN:
        message = (
            "'chain' cannot be named; list its backends, like use: [table, roofline, recorded]"
        )
        raise validation_error("value", message, "use", name)
    choice = BACKEND.read(data, info)
    return Binding(choice.use, choice.settings)


def _read_chain_link(data: Any, info: ValidationInfo) -> Binding:
    """Read one backend of a chain."""
    binding = read_binding(data, info)
    if binding.links:
        message = "a chain cannot contain a chain; list its backends directly"
        raise validation_error("value", message, value=data)
    return binding


class _ChainForm(Section):
    """Schema of a chain of backends in a scenario file."""

    use: Annotated[Many[Annotated[Binding, PlainValidator(_read_chain_link)]], Field(min_length=1)]


def missing_settings(
    glob: str, binding: Binding, parts: Mapping[str, Part]
) -> tuple[list[str], str]:
    """Names of required backend settings that are missing, and the part that could supply them.

    Parameters
    ----------
    glob : name or glob of the components
    binding : backend bound to them
    parts : parts of the cluster by path, such as ``node.gpu`` or ``kinds.trainer.gpu``

    Examples
    --------
    >>> gpu = Part("gpu", settings={"bandwidth": 3e12})
    >>> missing_settings("node*.gpu*", Binding("roofline"), {"node.gpu": gpu})
    ([], 'cluster.node.gpu')
    >>> missing_settings("wire", Binding("link", {"latency": 0.0}), {})
    (['bandwidth'], '')
    """
    places = _part_paths_of_glob(glob, parts)
    if not places and "*" in glob.split("."):
        return [], ""  # matches any kind of part: checked when the machine is built
    told = (*(parts[place].settings for place in places), binding.settings)
    known: Mapping[str, Any] = reduce(merge_settings, told)
    absent = list(missing_keys(backend_settings_model(binding.use), known))
    return absent, f"cluster.{places[0]}" if places else ""


def _part_paths_of_glob(glob: str, parts: Mapping[str, Part]) -> list[str]:
    """Paths of the parts that a glob of components stands for, found by the words in the glob."""
    pool, _, below = glob.removeprefix(SELECTED).partition(".")
    if glob.startswith(SELECTED):
        if not below:
            return []
        parts, glob = {p: v for p, v in parts.items() if p.startswith(f"kinds.{pool}.")}, below
    for word in reversed(re.findall(r"[a-z]+", glob)):
        kind = "library" if word == "fabric" else word
        if found := [place for place in parts if place.rpartition(".")[2] == kind]:
            return found
    return []


def matches_only_subcomponent(glob: str, component: Component, components: Container[str]) -> bool:
    """True if a glob matches a component only because it matches the component that contains it.

    Example: ``node*.gpu*`` matches ``node0.gpu1.dma``, which is part of ``node0.gpu1``. A glob
    without a dot (``*``, ``node0*``, ``kind:trainer``) is meant for all subcomponents too.

    >>> there = {"node0.gpu1", "node0.gpu1.dma", "node0.nic0.tx"}
    >>> gpu, dma, nic = (Component(name, "any") for name in sorted(there))
    >>> [matches_only_subcomponent("node*.gpu*", c, there) for c in (gpu, dma)]
    [False, True]
    >>> matches_only_subcomponent("node*.nic*", nic, there)
    False
    >>> matches_only_subcomponent("*", dma, there)
    False
    """
    whole = component.name.rpartition(".")[0]
    return "." in glob and whole in components and matches_pattern(glob, component, whole)


def entry_for_component(
    table: Mapping[str, T], component: Component, components: Container[str]
) -> T | None:
    """Entry of a table of globs for a component: by its exact name, else by the last matching glob.

    A glob does not match the subcomponents of what it names.

    >>> there = {"node0.gpu0", "node0.gpu0.dma"}
    >>> table = {"node*.gpu*": 1, "node1.gpu0": 2}
    >>> gpus = [Component(f"node{node}.gpu0", "any") for node in (0, 1)]
    >>> [entry_for_component(table, gpu, there) for gpu in gpus]
    [1, 2]
    >>> entry_for_component(table, Component("node0.gpu0.dma", "dma"), there) is None
    True
    """
    if component.name in table:
        return table[component.name]
    found = None
    for glob, value in table.items():
        if matches_pattern(glob, component) and not matches_only_subcomponent(
            glob, component, components
        ):
            found = value
    return found


def entries_by_component(table: Mapping[str, T], machine: System) -> dict[int, T]:
    """Entry of a table of globs for each component that has one, by component index.

    Equals ``entry_for_component`` for each component, but looks up each glob only once.

    >>> machine = System(tuple(Component(f"node{i}.gpu0", "any") for i in (0, 1, 2)))
    >>> entries_by_component({"node1.gpu0": 2, "node[01].gpu*": 1}, machine)
    {0: 1, 1: 2}
    """
    entry, values = entry_index_by_component(table, machine), tuple(table.values())
    return {number: values[entry[number]] for number in np.flatnonzero(entry >= 0).tolist()}


def entry_index_by_component(table: Iterable[str], machine: System) -> NDArray[np.int64]:
    """Index of the table entry of each component, shape (components,); -1 for none."""
    index, found = machine.index, np.full(len(machine.components), -1)
    for k, glob in enumerate(table):
        if glob not in index or WILD.search(glob) or "." not in glob:
            found[component_indices_of_glob(glob, machine)] = k
    for k, name in enumerate(table):
        if name in index:
            found[index[name]] = k
    return found


def component_indices_of_glob(glob: str, machine: System) -> NDArray[np.int64]:
    """Indices of the components that a glob matches, without their subcomponents."""

    def is_meant(part: Component) -> bool:
        return matches_pattern(glob, part) and not matches_only_subcomponent(
            glob, part, machine.index
        )

    return machine.components.matching(is_meant, by_digits=depends_on_digits(glob))
