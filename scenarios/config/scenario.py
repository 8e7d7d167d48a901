"""A checked, immutable scenario: values in SI, and the origin of each value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ...sim.errors import ScenarioError
from ...sim.facts.sampling import MAIN
from .problems import FilePosition, Problem, did_you_mean_text
from .reading.files import file_digests_by_setting, with_bare_file_names
from .reading.tree import NumberSource, Plain, merge_layers, to_dict, tree_from_value

if TYPE_CHECKING:
    from .binding import Binding
    from .choice import Choice
    from .schema import Section
    from .sections.cluster import ClusterSection
    from .sections.cost import CostSection
    from .sections.expect import Expectation
    from .sections.jobs import JobSection
    from .sections.placement import PlacementSection
    from .sections.report import ReportSection
    from .sections.run import RunSection
    from .sections.what_if import VariantSection
    from .sections.workload import WorkloadSection

BASE = "base"
SETTING = re.compile(r"[a-z_]+(\.\w+|\[\d+\])*(?=: )")  # dotted path at the start of a message
ITEM = re.compile(r"\[(\d+)\]")  # index in a list


@dataclass(frozen=True)
class Origin:
    """Origin of a value: the layer and the file position that set it.

    Parameters
    ----------
    text : value as written
    layer : ``default``, ``catalog``, ``extends``, ``scenario``, ``--set`` or ``variant NAME``
    where : file, line and column; "" for defaults
    source : source of the number, such as a datasheet; None if not given
    """

    text: str
    layer: str
    where: str = ""
    source: NumberSource | None = None


@dataclass(frozen=True, repr=False)
class Scenario:
    """A checked description of what to simulate, made by ``load``.

    Parameters
    ----------
    model : the checked sections
    plain : resolved scenario as plain values: see ``resolved``
    origins : origin of each value, by dotted path
    variant : ``base``, or the name of a variant in ``what_if``
    others : scenarios of the variants in ``what_if``, in order
    warnings : problems that are legal but probably mistakes
    file : file name as the user gave it
    """

    model: Section
    plain: Plain
    origins: Mapping[str, Origin]
    variant: str = BASE
    others: tuple[Scenario, ...] = ()
    warnings: tuple[Problem, ...] = ()
    file: str = ""

    def __repr__(self) -> str:
        beside = ", ".join(s.variant for s in self.others)
        return f"<Scenario {self.name!r} of {self.file}{f', beside it {beside}' * bool(beside)}>"

    @cached_property
    def build_cache(self) -> dict[str, Any]:
        """Cache of objects built from the scenario, by name, shared by its checks and its run."""
        return {}

    def section(self, key: str) -> Any:
        """Checked value of a top-level key; None if absent."""
        return getattr(self.model, key)

    @property
    def name(self) -> str:
        """Name of the scenario, also of the folder of its runs."""
        return str(self.section("name"))

    @property
    def question(self) -> str:
        """Question that the run answers; "" for none."""
        return str(self.section("question")).strip()

    @property
    def jobs(self) -> Mapping[str, JobSection]:
        """Jobs by name; a top-level ``workload`` is the single job ``main``."""
        from .sections.jobs import single_job

        several: Mapping[str, JobSection] = self.section("jobs")
        top = (self.section(key) for key in ("workload", "placement", "processes", "ops"))
        return several or {MAIN: single_job(*top)}

    @property
    def workload(self) -> WorkloadSection:
        """Workload of the first job."""
        return next(iter(self.jobs.values())).workload

    @property
    def cluster(self) -> ClusterSection:
        """Machines and network."""
        return cast("ClusterSection", self.section("cluster"))

    @property
    def backends(self) -> Mapping[str, Binding]:
        """Backends by component name or glob; see ``binding.entry_for_component``."""
        return cast("Mapping[str, Binding]", self.section("backends"))

    @property
    def processes(self) -> tuple[Choice, ...]:
        """Processes that change the machine or the work during a run."""
        return cast("tuple[Choice, ...]", self.section("processes"))

    @property
    def placement(self) -> PlacementSection:
        """Placement of ranks and of the optimizer state."""
        return cast("PlacementSection", self.section("placement"))

    @property
    def what_if(self) -> tuple[VariantSection, ...]:
        """Variants as written; their scenarios are in ``variants()``."""
        return cast("tuple[VariantSection, ...]", self.section("what_if"))

    @property
    def expect(self) -> tuple[Expectation, ...]:
        """Conditions on the results; they decide the exit code."""
        return cast("tuple[Expectation, ...]", self.section("expect"))

    @property
    def cost(self) -> CostSection | None:
        """Prices; None if the file has none."""
        return cast("CostSection | None", self.section("cost"))

    @property
    def run(self) -> RunSection:
        """Settings of the run: seed, replicas, engine, limits."""
        return cast("RunSection", self.section("run"))

    @property
    def report(self) -> ReportSection:
        """Settings of the report."""
        return cast("ReportSection", self.section("report"))

    def variants(self) -> tuple[Scenario, ...]:
        """The base scenario, then the scenario of each variant in ``what_if``."""
        return (self, *self.others)

    def only(self, variant: str) -> Scenario:
        """Copy of the scenario with only one variant of ``what_if``.

        Raises
        ------
        ScenarioError
            There is no variant with that name.
        """
        kept = tuple(o for o in self.others if o.variant == variant)
        if not kept:
            known = [o.variant for o in self.others]
            raise ScenarioError(
                f"--variant: no variant named '{variant}'{did_you_mean_text(variant, known)}"
            )
        told = self.resolved()
        told["what_if"] = [variant_with_uses_merged(told["what_if"], variant)]
        return replace(self, plain=told, others=kept)

    def message_prefix(self, path: str) -> str:
        """Prefix of an error message with the file and line of a setting; empty if unknown."""
        places = (o.where for p, o in self.origins.items() if p.startswith(path) and o.where)
        return "".join(f"{where}: " for where in islice(places, 1))

    def position_of(self, message: str) -> FilePosition:
        """File position of the setting that begins a message, or of its parent; else the file."""
        found = SETTING.match(message)
        words = ITEM.sub(r".\1", found[0]).split(".") if found else []
        while words:
            path = ".".join(words)
            parts = self._where(path).rsplit(":", 2)
            if len(parts) == 3:
                return FilePosition(parts[0], int(parts[1]), int(parts[2]), path=path)
            words.pop()
        return FilePosition(self.file)

    def spot(self, path: str) -> FilePosition:
        """File position of a setting, or of one below it; the file without a line if unknown."""
        file, *place = self.message_prefix(path).removesuffix(": ").rsplit(":", 2)
        if len(place) < 2:
            return FilePosition(self.file, path=path)
        return FilePosition(file, int(place[0]), int(place[1]), path=path)

    def _where(self, path: str) -> str:
        """File position of a setting or of a setting below it; "" if unknown."""
        below = f"{path}."
        said = (o.where for p, o in self.origins.items() if p == path or p.startswith(below))
        return next(filter(None, said), "")

    def resolved(self) -> Plain:
        """The scenario as plain values for YAML, which load again to the same scenario.

        Paths are absolute, defaults are written out, and the catalog entries in use are included
        under ``catalog`` with their sources.
        """
        return json.loads(json.dumps(self.plain))

    def digest(self) -> str:
        """SHA-256 of everything that can change the answer; files count by their content."""
        told = self.resolved()
        for key in ("question", "report", "sweep"):
            told.pop(key, None)
        for key in ("workers", "time_limit", "memory"):
            told.get("run", {}).pop(key, None)
        whole = {
            "variant": self.variant,
            "files": file_digests_by_setting(told),
            **with_bare_file_names(told),
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def settings(self) -> dict[str, Any]:
        """All checked values in SI, by dotted path."""
        return values_by_dotted_path(self.model)


def variant_with_uses_merged(entries: list[Plain], name: str) -> Plain:
    """One entry of ``what_if`` merged with the entries that it uses.

    >>> a, b = {"name": "a", "set": {"x": 1, "y": 1}}, {"name": "b", "use": ["a"], "set": {"x": 2}}
    >>> variant_with_uses_merged([a, b], "b")
    {'name': 'b', 'set': {'x': 2, 'y': 1}}
    """
    entry = next(e for e in entries if e["name"] == name)
    own = tree_from_value({k: v for k, v in entry.items() if k != "use"}, FilePosition(""), "")
    for other in reversed(entry.get("use", ())):
        own = merge_layers(
            tree_from_value(variant_with_uses_merged(entries, other), FilePosition(""), ""), own
        )
    return to_dict(own)


def values_by_dotted_path(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten nested models, mappings and sequences to a mapping by dotted path."""
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        inner = {f.alias or k: getattr(value, k) for k, f in type(value).model_fields.items()}
    elif isinstance(value, Mapping):
        inner = dict(value)
    elif hasattr(value, "to_dict"):
        inner = value.to_dict()
    elif isinstance(value, tuple | list):
        inner = {str(i): v for i, v in enumerate(value)}
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for key, below in inner.items():
        found |= values_by_dotted_path(below, f"{path}.{key}".lstrip("."))
    return found
