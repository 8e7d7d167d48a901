"""Loading: from a file to a checked scenario, or to a list of all its problems.

A scenario is a merge of trees: catalog < ``extends`` < the file < ``--set`` < a variant. One
schema checks each of them, and errors point to the line that is wrong.
"""

from __future__ import annotations

import copyreg
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path as File
from typing import Any

from .catalog import Catalog, installed
from .draft import Draft, VariantDraft
from .plugin_loading import load_plugin_file
from .problems import FilePosition, InvalidScenarioError, Problem, did_you_mean_text
from .reading.catalog_values import Used, with_catalog_values, with_short_forms_written_out
from .reading.document import parse_yaml, read_yaml_file
from .reading.files import BUNDLED
from .reading.lint import lint, variant_warnings
from .reading.overrides import apply_override, apply_settings
from .reading.references import reference_problems
from .reading.renamed_settings import with_current_names
from .reading.resolution import resolved_to_dict, value_origins, with_absolute_paths, with_defaults
from .reading.schema_check import schema_problems
from .reading.tree import (
    Plain,
    TreeNode,
    find_node,
    merge_layers,
    tree_from_value,
    with_layer,
    without_keys,
)
from .reading.type_check import check_types
from .scenario import BASE, Origin, Scenario
from .schema import SECTIONS, scenario_model

LIBRARY = File(__file__).parents[1] / "library"


def load(
    file: str | os.PathLike[str],
    *,
    set: Iterable[str] = (),
    catalogs: Iterable[str | os.PathLike[str]] = (),
) -> Scenario:
    """Read and check a scenario.

    Parameters
    ----------
    file : str or Path
        A YAML file, or the name of a bundled scenario: ``foretrace:NAME`` or ``NAME``.
    set : texts
        Overrides such as ``cluster.nodes=4``, applied to the file.
    catalogs : directories
        Directories of catalog files; their entries override bundled ones of the same name.

    Raises
    ------
    InvalidScenarioError
        Everything that is wrong, with file and line.
    """
    path, shown = scenario_file_and_shown_name(os.fspath(file))
    return _check_scenario(
        _read_with_extends(path, shown, ()), shown, set, installed(map(str, catalogs))
    )


def loads(
    text: str,
    *,
    file: str = "<text>",
    set: Iterable[str] = (),
    catalogs: Iterable[str | os.PathLike[str]] = (),
) -> Scenario:
    """Read and check a scenario given as text; relative paths start at the current folder.

    Parameters
    ----------
    text : scenario as YAML text
    file : file name to show in messages
    set, catalogs : as for ``load``

    Examples
    --------
    >>> head, machines = "foretrace: 1, name: t", "cluster: {nodes: 2, node: {gpu: {}}}"
    >>> tiny = f"{{{head}, workload: {{trace: t.json}}, {machines}}}"
    >>> loads(tiny, set=["cluster.nodes=4"]).cluster.nodes
    4
    """
    tree = _merge_extends(parse_yaml(text, file), file, ())
    return _check_scenario(tree, file, set, installed(map(str, catalogs)))


def _reduce_scenario(scenario: Scenario) -> Any:
    """Pickle a scenario by its resolved form, since pickle cannot import its generated classes."""
    s = scenario
    known = (s.plain, dict(s.origins), s.variant, s.others, s.warnings, s.file)
    return scenario_from_pickle, known


copyreg.pickle(Scenario, _reduce_scenario)


def scenario_from_pickle(
    plain: Plain,
    decided: Mapping[str, Origin],
    variant: str,
    others: tuple[Scenario, ...],
    warnings: tuple[Problem, ...],
    file: str,
) -> Scenario:
    """Restore a pickled scenario from its resolved form."""
    tree = _with_named_plugins(parse_yaml(json.dumps(plain), file))
    own = find_node(tree, ("catalog",))
    full, _, _ = with_catalog_values(tree, Catalog(own=own))
    model, problems = check_types(full)
    if model is None:
        raise InvalidScenarioError(problems)
    return Scenario(model, plain, decided, variant, others, warnings, file)


def with_overrides(plain: Plain, settings: Mapping[str, Plain]) -> Scenario:
    """Copy of a resolved scenario with some settings changed; without variants and value origins.

    Parameters
    ----------
    plain : resolved scenario, as from ``Scenario.resolved``
    settings : new values by dotted path

    Raises
    ------
    InvalidScenarioError
        The changed scenario is not valid.

    Examples
    --------
    >>> with_overrides(load("first").resolved(), {"cluster.nodes": 9}).cluster.nodes
    9
    """
    tree, catalog = _read_resolved(json.dumps(plain))
    for path, value in settings.items():
        spot = FilePosition("sweep", 1, 1, 0, "", path)
        tree = apply_override(tree, path, tree_from_value(value, spot, "sweep"))
    full, _, problems = with_catalog_values(with_short_forms_written_out(tree), catalog)
    model, found = check_types(full)
    if model is None or problems:
        raise InvalidScenarioError(problems + found)
    return Scenario(model, {**plain, "set": dict(settings)}, {}, BASE, (), (), "sweep")


@lru_cache(maxsize=4)
def _read_resolved(text: str) -> tuple[TreeNode, Catalog]:
    """Tree of a resolved scenario without variants, and the catalog inside it."""
    tree = _with_named_plugins(parse_yaml(text, "resolved"))
    return without_keys(tree, ("what_if", "sweep", "catalog")), Catalog(
        own=find_node(tree, ("catalog",))
    )


def scenario_file_and_shown_name(name: str) -> tuple[File, str]:
    """Path of a scenario file, and its name in messages.

    Raises
    ------
    InvalidScenarioError
        There is no such file and no such bundled scenario.
    """
    bundled = name.removeprefix(BUNDLED)
    inside = LIBRARY / f"{bundled}.yaml"
    path = File(name)
    if not name.startswith(BUNDLED) and (path.exists() or path.suffix or "/" in name):
        return path, name
    known = sorted(f.stem for f in LIBRARY.glob("*.yaml"))
    if bundled in known:
        return inside, f"{BUNDLED}{bundled}"
    message = (
        f"no scenario file and no bundled scenario '{bundled}'{did_you_mean_text(bundled, known)}"
    )
    raise InvalidScenarioError([Problem("unreadable", message, FilePosition(name))])


def _read_with_extends(path: File, shown: str, above: tuple[str, ...]) -> TreeNode:
    """Tree of a file merged with all files that it extends."""
    return _merge_extends(read_yaml_file(path, shown), shown, (*above, os.path.abspath(path)))


def _merge_extends(tree: TreeNode, shown: str, above: tuple[str, ...]) -> TreeNode:
    tree = with_short_forms_written_out(with_current_names(tree))
    named = tree.mapping.get("extends")
    if named is None or not isinstance(named.value, str):
        return with_current_names(tree)
    inside = named.value.startswith(BUNDLED)
    target = named.value if inside else os.path.join(os.path.dirname(shown), named.value)
    path, name = scenario_file_and_shown_name(target)
    if os.path.abspath(path) in above:
        message = f"'{named.value}' extends this file too; remove one of the two 'extends'"
        raise InvalidScenarioError([Problem("circular-extends", message, named.spot)])
    if not path.is_file():
        message = f"no file '{target}' to extend; write its path from the folder of this file"
        raise InvalidScenarioError([Problem("unreadable", message, named.spot)])
    scenario_model()  # the sections must be known to say which are inherited
    own = tuple(key for key, entry in SECTIONS.items() if not entry.inherited)
    below = without_keys(with_layer(_read_with_extends(path, name, above), "extends"), own)
    return merge_layers(below, with_current_names(tree, merge_layers(below, tree)))


READING: dict[str, Callable[[Draft], Iterable[Problem]]] = {
    "schema": schema_problems,
    "references": reference_problems,
    "lint": lint,
}
"""Checks made while a scenario is read, in order; ``cli.checks`` adds those made before a run."""


def _check_scenario(
    tree: TreeNode, shown: str, settings: Iterable[str], catalog: Catalog
) -> Scenario:
    scenario_model()
    _load_named_plugins(with_absolute_paths(tree))
    tree = with_absolute_paths(apply_settings(with_current_names(tree), settings))
    _load_named_plugins(tree)
    if own := find_node(tree, ("catalog",)):
        catalog = catalog.with_own_parts(own)
    draft = Draft(tree, catalog, shown)
    problems = [problem for check in READING.values() for problem in check(draft)]
    if errors := [p for p in problems if p.severity == "error"]:
        raise InvalidScenarioError(errors)
    return _scenario_of_draft(draft, tuple(problems))


def _scenario_of_draft(draft: Draft, warnings: tuple[Problem, ...]) -> Scenario:
    """Scenario of a draft without errors."""
    used = {key: entry for variant in draft.variants for key, entry in variant.used.items()}
    others = tuple(
        _scenario_of_variant(v, draft.file, tuple(variant_warnings(v)), v.used)
        for v in draft.others
    )
    return replace(_scenario_of_variant(draft.base, draft.file, warnings, used), others=others)


def _scenario_of_variant(
    draft: VariantDraft, shown: str, warnings: tuple[Problem, ...], used: Used
) -> Scenario:
    """Scenario of the base or of one variant, without its own ``what_if``."""
    if draft.model is None:
        raise InvalidScenarioError(draft.problems)
    model, name = draft.model, draft.name
    bare = without_keys(with_defaults(draft.tree, model), () if name == BASE else ("what_if",))
    decided = value_origins(with_defaults(draft.full, model))
    return Scenario(model, resolved_to_dict(bare, used), decided, name, (), warnings, shown)


def _with_named_plugins(tree: TreeNode) -> TreeNode:
    """Resolved tree in the current format, after loading its plug-ins."""
    _load_named_plugins(tree)
    return with_current_names(tree)


def _load_named_plugins(tree: TreeNode) -> None:
    """Load the plug-ins listed under ``plugins``, once each."""
    named = find_node(tree, ("plugins",))
    for node in named.items if named else ():
        if node.text_value:
            load_plugin_file(File(node.text_value), node.spot)
