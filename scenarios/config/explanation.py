"""``explain``: the meaning, unit, default and allowed values of a setting, metric, backend or part.

All of it is read from the schema that checks scenarios, so the two cannot differ.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ...reports.texts.glossary import PERIODS, WORDS, definition_of
from ...sim.errors import ScenarioError
from .component_names import KINDS, meaning_of_name
from .metrics import Metric, known_metrics, parse_metric
from .planned_releases import planned_release
from .reading.renamed_settings import current_name
from .schema import json_schema
from .settings import known_backends, known_processes, known_workloads

Schema = dict[str, Any]
LISTS = {
    "backends": ("backend", "Backends that can time the ops of components."),
    "processes": ("process", "Processes that can act during a run."),
    "workloads": ("workload", "Workloads that a scenario can run."),
}
"""Lists that ``explain`` can print, by name: kind of the entries, and title of the list."""


@dataclass(frozen=True)
class Explanation:
    """Explanation of a setting, metric, backend, part or word; ``str()`` gives the printed text.

    Parameters
    ----------
    name : dotted name, as the user wrote it
    what : description of the item in one or two sentences
    facts : unit, default, allowed values and so on, by label
    below : meaning of each key or part below the name
    """

    name: str
    what: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    below: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self.name, *([f"  {self.what}"] if self.what else [])]
        width = max(8, *map(len, self.facts)) if self.facts else 0
        lines += [f"  {k:<{width}} {v}" for k, v in self.facts.items()]
        width = max(map(len, self.below), default=0)
        lines += [f"    {k:<{width}}  {v}".rstrip() for k, v in self.below.items()]
        return "\n".join(lines)


def explain(name: str) -> Explanation:
    """Explain a setting by dotted path, a metric, a backend, a process, a part or a word.

    Raises
    ------
    ScenarioError
        The name is unknown; the message suggests the nearest one.

    Examples
    --------
    >>> print(explain("run.seed"))
    run.seed
      Seed of all random draws; the same seed gives the same answer.
      type     integer
      default  0
    >>> explain("iteration_time").facts["unit"]
    's'
    """
    if name == "metrics":
        below = {_full_metric_name(m): m.definition for m in known_metrics().values()}
        return Explanation(name, "Metrics that conditions under `expect` may use.", {}, below)
    if name == "words":
        return Explanation(name, "Words that reports use.", {}, dict(PERIODS | WORDS))
    tables: dict[str, Mapping[str, type]] = {
        "backend": known_backends(), "process": known_processes(), "workload": known_workloads()
    }  # fmt: skip
    if name in LISTS:
        kind, what = LISTS[name]
        below = {k: (cls.__doc__ or "").partition("\n")[0] for k, cls in tables[kind].items()}
        return Explanation(name, what, {}, below)
    schema = json_schema()
    found = _schema_at(schema, schema, name.split("."))
    if found is not None:
        return _explain_setting(name, found, schema)
    if metric := _metric_named(name):
        facts = {"unit": metric.unit or "ratio", "has": ", ".join(metric.statistics) or "one value"}
        facts |= {"better": metric.better} if metric.better else {}
        return Explanation(name, metric.definition, facts)
    meaning = meaning_of_name(name)
    owner, _, rest = name.partition(".")
    owners = {kind: table[owner] for kind, table in tables.items() if owner in table}
    for kind in owners:
        found = schema["$defs"][f"{owner}_{kind}"]
        if not rest:
            return _explain_setting(name, found, schema, {"of a run": meaning} if meaning else {})
        if (below_it := _schema_at(found, schema, rest.split("."))) is not None:
            return _explain_setting(name, below_it, schema)
    if told := definition_of(name) or definition_of(name.replace("_", " ")):
        return Explanation(name, told)
    if meaning:
        where = f"foretrace explain {name} --on SCENARIO, or the folder of a run"
        here = {"here": f"{where}: its rate, its users, its utilization"}
        return Explanation(name, meaning, here if name in KINDS or not name.isalpha() else {})
    for cls in known_workloads().values() if owner == "workload" else owners.values():
        if (now := current_name(rest, getattr(cls, "renamed_settings", {}))) != rest:
            told_now = explain(f"{owner}.{now}")
            return replace(told_now, facts={**told_now.facts, "was": name})
    if release := planned_release("metric", name):
        raise ScenarioError(
            f"explain: '{name}' is planned for release {release}; see: foretrace explain metrics"
        )
    near = difflib.get_close_matches(name, list(_names_to_explain(schema)), 1)
    hint = (
        f"did you mean '{near[0]}'?" if near else "see: foretrace explain, foretrace explain words"
    )
    raise ScenarioError(f"explain: nothing has the name '{name}'; {hint}")


def _metric_named(name: str) -> Metric | None:
    """Metric by its name, with or without a statistic or a job prefix; None if unknown."""
    known = known_metrics()
    if found := known.get(name) or next((m for m in known.values() if m.fits(name)), None):
        return found
    with suppress(ValueError):
        return parse_metric(name)[0]
    return None


def _full_metric_name(metric: Metric) -> str:
    return f"{metric.name}.{metric.statistics[0]}" if metric.statistics else metric.name


def _names_to_explain(schema: Schema) -> Iterator[str]:
    """All names that can be explained, to suggest one for a mistyped name."""
    yield from known_metrics()
    yield from known_workloads()
    yield from known_backends()
    yield from known_processes()
    todo = [("", schema, 0)]
    while todo:
        path, found, depth = todo.pop()
        for key, below in _schema_properties(found, schema).items():
            full = f"{path}.{key}".lstrip(".")
            yield full
            if depth < 3:
                todo.append((full, below, depth + 1))


def _schema_at(node: Schema | None, schema: Schema, words: list[str]) -> Schema | None:
    if words == ["scenario"]:
        return schema
    for word in words:
        if word.isdigit() and _is_list(node or {}, schema):
            continue  # every entry of a list has the same explanation
        known = _schema_properties(node or {}, schema)
        node = known.get(word) or _schema_under_any_key(node or {}, schema)
        if node is None:
            return None
    return node


def _is_list(node: Schema, schema: Schema) -> bool:
    """True if a schema node allows a list."""
    if "$ref" in node:
        return _is_list(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
    return node.get("type") == "array" or any(_is_list(f, schema) for f in node.get("anyOf", ()))


def _schema_choices(node: Schema, schema: Schema) -> list[Schema]:
    """Alternatives of a schema node, with references resolved."""
    if "$ref" in node:
        return [*_schema_choices(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)]
    if "anyOf" in node:
        return [c for a in node["anyOf"] for c in _schema_choices(a, schema)]
    if node.get("type") == "array" and "items" in node:
        return _schema_choices(node["items"], schema)
    return [node]


def _schema_properties(node: Schema, schema: Schema) -> Schema:
    own: Schema = {}
    for choice in _schema_choices(node, schema):
        for key, value in choice.get("properties", {}).items():
            other = own.get(key, value)
            own[key] = value if other == value else {"anyOf": [other, value]}
    return own


def _schema_under_any_key(node: Schema, schema: Schema) -> Schema | None:
    """Schema of the values of a mapping with free keys; None if the node has none."""
    for choice in _schema_choices(node, schema):
        named = choice.get("patternProperties", {}).values()
        for below in (choice.get("additionalProperties"), *named):
            if isinstance(below, dict):
                return below
    return None


def _explain_setting(
    name: str, node: Schema, schema: Schema, extra_facts: Mapping[str, str] = MappingProxyType({})
) -> Explanation:
    choices = _schema_choices(node, schema)
    what = node.get("description") or choices[0].get("description", "")
    facts = dict(extra_facts)
    types = dict.fromkeys(c["type"] if isinstance(c.get("type"), str) else "" for c in choices)
    plain = [t for t in types if t and t not in ("null", "object")]
    examples = next((c["examples"] for c in choices if "examples" in c), None)
    values = [str(v) for c in choices for v in c.get("enum", [c["const"]] if "const" in c else [])]
    if examples:
        facts["like"] = str(examples[0])
    elif values:
        facts["values"] = ", ".join(values)
    elif plain:
        facts["type"] = ", ".join(plain)
    if isinstance(node.get("default"), str | int | float) and node["default"] != "":
        facts["default"] = str(node["default"])
    below = {k: _setting_line(v, schema) for k, v in _schema_properties(node, schema).items()}
    return Explanation(name, _first_paragraph(what), facts, below)


def _setting_line(node: Schema, schema: Schema) -> str:
    told: str = node.get("description") or _schema_choices(node, schema)[0].get("description", "")
    return _first_paragraph(told)


def _first_paragraph(text: str) -> str:
    r"""First paragraph of a docstring, as one line.

    >>> _first_paragraph("A collective, such as\n``all-reduce``.\n\nMore.")
    'A collective, such as ``all-reduce``.'
    """
    return " ".join(text.partition("\n\n")[0].split())
