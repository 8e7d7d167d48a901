"""Check of a tree against the schema: each violation as a problem with its position."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ..binding import Binding, missing_settings
from ..planned_releases import planned_release
from ..problems import FilePosition, Problem, did_you_mean_text
from ..schema import SECTIONS, Section, scenario_model
from ..settings import constructor_model, known_workloads
from .tree import Path, TreeNode, deepest_node, dotted_path_text, find_node, to_dict

Error = Any  # one of pydantic's, a dict
WORDS = {  # by pydantic's error type: the expected type, and how to write it
    "int_type": ("a whole number", ""),
    "int_from_float": ("a whole number", ""),
    "int_parsing": ("a whole number", ""),
    "float_type": ("a number", ""),
    "bool_type": ("true or false", ""),
    "string_type": ("text", "put it in quotes"),
    "dict_type": ("a mapping", "write it like {key: value}"),
    "model_type": ("a mapping", "write it like {key: value}"),
    "tuple_type": ("a list", "write it like [a, b]"),
    "list_type": ("a list", "write it like [a, b]"),
}
NUMBERS = {"int_type", "float_type"}
BOUNDS = {
    "greater_than": ("gt", "must be above"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be below"),
    "less_than_equal": ("le", "must be at most"),
}


def check_types(tree: TreeNode) -> tuple[Section | None, list[Problem]]:
    """Checked sections of a scenario, or a list of all violations of the schema."""
    data = to_dict(tree)
    known: dict[int, tuple[str, ...]] = {}
    try:
        model = scenario_model().model_validate(data, context=known)
    except ValidationError as error:
        errors = _without_consequential_errors(error.errors(include_url=False))
        return None, [_problem_of(e, tree, data, known) for e in errors]
    unanswered = list(_missing_workload_or_backend_settings(model, tree))
    return (None if unanswered else model), unanswered


def _missing_workload_or_backend_settings(model: Any, tree: TreeNode) -> Iterator[Problem]:
    """Problems of a missing workload, and of missing backend settings."""
    if not model.jobs and model.workload is None:
        yield _missing_key(tree, ("workload",))
    for key in ("workload", "placement", "processes", "ops") if model.jobs else ():
        if tree.has(key) and getattr(model, key) != SECTIONS[key].default:
            message = f"'{key}' at the top is for a single job; move it into one of the 'jobs'"
            yield Problem("not-one-of", message, _spot_at(tree.mapping[key].label, (key,)))
    yield from _conditions_without_job(model, tree)
    parts = model.cluster.parts()
    for glob, path, binding in _backends_and_chain_links(model.backends):
        names, place = missing_settings(glob, binding, parts)
        for name in names:
            problem = _missing_key(tree, (*path, *name.split(".")))
            beside = f"; write it here or in {place}" if place else ""
            yield replace(problem, message=f"'{name}' is missing{beside}")


def _backends_and_chain_links(
    backends: Mapping[str, Binding],
) -> Iterator[tuple[str, Path, Binding]]:
    """Glob, path and binding of each backend, including each link of a chain."""
    for glob, binding in backends.items():
        for i, link in enumerate(binding.links_or_self):
            yield glob, ("backends", glob, *(("use", i) if binding.links else ())), link


WHOLE = ("makespan", "utilization", "occupancy", "cost_per_hour", "power", "memory", "error")


def _conditions_without_job(model: Any, tree: TreeNode) -> Iterator[Problem]:
    """Problems of conditions that do not name a job although there are several."""
    for i, one in enumerate(model.expect if len(model.jobs) > 1 else ()):
        name, head = one.that.metric, one.that.metric.partition(".")[0]
        if head not in model.jobs and name.rpartition(".")[2] not in WHOLE and "." not in name:
            path: Path = ("expect", i, "that")
            node, _ = deepest_node(tree, path)
            job = next(iter(model.jobs))
            message = f"'{name}' belongs to a job; name the job, such as {job}.{one.that.name}"
            yield Problem("value", message, _spot_at(node.spot, path))


NO_PLACE = ("[key]", "[one]", "[many]")  # parts of an error's path that are no key and no index


def _without_consequential_errors(errors: list[Error]) -> list[Error]:
    """Errors without those that only follow from another, such as a missing mistyped key."""
    unknown = [e["loc"] for e in errors if e["type"] == "extra_forbidden"]
    short = {e["loc"] for e in errors if e["type"] == "too_short"}
    filled = {e["loc"][:n] for e in errors for n in range(len(e["loc"]))} & short
    kept = [e for e in errors if e["type"] != "too_short" or e["loc"] not in filled]
    return [e for e in kept if e["type"] != "missing" or not _is_mistyped(e["loc"], unknown)]


def _is_mistyped(missing: Path, unknown: list[Path]) -> bool:
    beside = [str(loc[-1]) for loc in unknown if loc[:-1] == missing[:-1]]
    return bool(difflib.get_close_matches(str(missing[-1]), beside, 1))


def _problem_of(
    error: Error, tree: TreeNode, data: Any, known: dict[int, tuple[str, ...]]
) -> Problem:
    path: Path = tuple(p for p in error["loc"] if p not in NO_PLACE)
    kind = error["type"]
    if kind == "missing":
        return _missing_key(tree, path)
    if kind == "extra_forbidden":
        return _unknown_key(tree, path, _allowed_keys_at(data, path[:-1], known))
    node, _ = deepest_node(tree, path)
    if "[key]" in error["loc"]:
        empty = kind == "string_too_short"
        message = "the name is empty; write a name" if empty else _message_of(error, node)
        return Problem("key", message, _spot_at(node.label, path))
    message = _number_as_written(_message_of(error, node), node)
    if release := planned_release(
        dotted_path_text(_path_inside_job(path)).removesuffix(".use"), node.value
    ):
        listed = message.partition(" is not ")[2] or message.partition("; there is: ")[2]
        others = listed.partition("; did you mean")[0]
        message = f"'{node.value}' is planned for release {release}; until then write {others}"
    return Problem(NAMES.get(kind, kind.replace("_", "-")), message, _spot_at(node.spot, path))


def _path_inside_job(path: Path) -> Path:
    """Path of a setting relative to its job, as in a scenario with one job.

    >>> _path_inside_job(("jobs", "a", "workload", "trace"))
    ('workload', 'trace')
    """
    return path[2:] if path[:1] == ("jobs",) else path


NAMES = {"value_error": "value", "literal_error": "not-one-of", "missing-key": "missing"}


def _spot_at(spot: FilePosition, path: Path) -> FilePosition:
    """Position with a dotted path; an existing path, as of a ``set``, is kept."""
    return spot if spot.path else replace(spot, path=dotted_path_text(path))


def _missing_key(tree: TreeNode, path: Path) -> Problem:
    parent, _ = deepest_node(tree, path[:-1])
    first = next(iter(parent.mapping.values()), parent)
    spot = replace(first.label, path=dotted_path_text(path))
    return Problem("missing", f"'{path[-1]}' is missing", spot)


def _unknown_key(tree: TreeNode, path: Path, keys: tuple[str, ...]) -> Problem:
    node = find_node(tree, path) or tree
    name = str(path[-1])
    if node.layer.startswith(("variant", "--set", "sweep")):
        full = [dotted_path_text((*path[:-1], k)) for k in keys]
        name = dotted_path_text(path)
        message = f"'{name}' is not a setting{did_you_mean_text(name, full)}"
    elif path[0] == "backends" and len(path) == 3:
        message = f"{path[1]} has no setting '{name}'{did_you_mean_text(name, keys)}"
    else:
        message = f"unknown key '{name}'{_workload_that_has(path) or did_you_mean_text(name, keys)}"
    return Problem("unknown-key", message, _spot_at(node.label, path))


def _workload_that_has(path: Path) -> str:
    """Hint that names the workload types with a key that this workload lacks; "" for none.

    >>> _workload_that_has(("workload", "measured"))
    "; it is a setting of 'type: training'"
    """
    section, *below = _path_inside_job(path)
    if section != "workload" or len(below) != 1:
        return ""
    known = known_workloads().items()
    types = [f"'type: {t}'" for t, cls in known if below[0] in constructor_model(cls).allowed()]
    return f"; it is a setting of {' and '.join(types)}" if types else ""


def _allowed_keys_at(data: Any, path: Path, known: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
    for part in path:
        data = data[part]
    return known.get(id(data), ())


def _message_of(error: Error, node: TreeNode) -> str:
    kind, context = error["type"], error.get("ctx", {})
    written = node.text or error["input"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _not_one_of(written, context["expected"])
    if kind in WORDS and node.value is None:
        return f"'{node.label.path}' has no value; write one, or remove the line"
    if kind in WORDS:
        what, cure = WORDS[kind]
        cure = (kind in NUMBERS and _number_cure(node.value)) or cure
        shown = f"'{written}'" if node.text else _shape_text(node)
        return f"{shown} is not {what}" + (f"; {cure}" if cure else "")
    if kind == "too_short":
        return f"'{node.label.path}' is empty; write at least one entry"
    if kind in BOUNDS:
        limit, words = BOUNDS[kind]
        return f"'{written}' {words} {context[limit]:g}"
    return str(error["msg"])


def _shape_text(node: TreeNode) -> str:
    return "a list" if isinstance(node.value, tuple) else "a mapping"


def _number_cure(value: object) -> str:
    """Cure for a number written as text or with a decimal point; "" for none."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?", value):
        return "remove the quotes"
    whole = isinstance(value, float) and value.is_integer()
    return f"write {value:.0f}" if whole else ""


def _not_one_of(written: object, expected: str) -> str:
    names = re.findall(r"'([^']*)'|(\d+)", expected)
    known = [a or b for a, b in names]
    near = difflib.get_close_matches(str(written), known, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"'{written}' is not one of: {', '.join(known)}{hint}"


def _number_as_written(message: str, node: TreeNode) -> str:
    """Message with a number as written in the file, such as 1e6 in place of 1000000.0."""
    if node.text and not isinstance(node.value, str):
        return message.replace(f"'{node.value}", f"'{node.text}")
    return message
