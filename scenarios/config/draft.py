"""A scenario while it is being read: one tree per variant, not yet checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .catalog import Catalog
from .problems import InvalidScenarioError, Problem
from .reading.catalog_values import Used, with_catalog_values
from .reading.overrides import apply_variant
from .reading.resolution import with_absolute_paths
from .reading.tree import TreeNode, find_node
from .reading.type_check import check_types
from .scenario import BASE
from .schema import Section


@dataclass(frozen=True)
class VariantDraft:
    """The base scenario or one variant, checked against the schema.

    Parameters
    ----------
    name : ``base``, or the name of a variant in ``what_if``
    tree : the variant as written
    full : the tree completed with values of the catalog
    used : catalog entries that the variant uses
    model : checked sections; None if there are ``problems``
    problems : unknown catalog names and violations of the schema
    """

    name: str
    tree: TreeNode
    full: TreeNode
    used: Used
    model: Section | None
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, name: str, tree: TreeNode, catalog: Catalog) -> VariantDraft:
        """Check one tree and return its draft."""
        full, used, unknown = with_catalog_values(tree, catalog)
        model, mismatches = check_types(full)
        problems = (*unknown, *mismatches)
        return cls(name, tree, full, used, None if problems else model, problems)


@dataclass(frozen=True)
class Draft:
    """A scenario with all its variants, as far as it could be read.

    Parameters
    ----------
    tree : merged tree of the file, the files it extends, and ``--set``
    catalog : catalog that supplies values of the scenario's parts
    file : file name as the user gave it
    """

    tree: TreeNode
    catalog: Catalog
    file: str = ""

    @cached_property
    def base(self) -> VariantDraft:
        """Draft of the scenario itself."""
        return VariantDraft.of(BASE, self.tree, self.catalog)

    @cached_property
    def others(self) -> tuple[VariantDraft, ...]:
        """Drafts of the variants in ``what_if`` that can be applied, in order."""
        return tuple(d for d in self._variants_or_errors if isinstance(d, VariantDraft))

    @property
    def inapplicable_variant_problems(self) -> tuple[Problem, ...]:
        """Problems of the variants in ``what_if`` that cannot be applied."""
        errors = (e for e in self._variants_or_errors if isinstance(e, InvalidScenarioError))
        return tuple(problem for error in errors for problem in error.problems)

    @cached_property
    def _variants_or_errors(self) -> tuple[VariantDraft | InvalidScenarioError, ...]:
        entries = find_node(self.tree, ("what_if",))
        named = [
            (number, entry["name"].text_value)
            for number, entry in enumerate(entries.items if entries else ())
            if entry.has("name") and entry["name"].text_value
        ]
        return tuple(self._read_variant(number, name) for number, name in named)

    def _read_variant(self, number: int, name: str) -> VariantDraft | InvalidScenarioError:
        try:
            tree = with_absolute_paths(apply_variant(self.tree, number))
        except InvalidScenarioError as error:
            return error
        return VariantDraft.of(name, tree, self.catalog)

    @property
    def variants(self) -> tuple[VariantDraft, ...]:
        """Drafts of the base scenario and of all variants."""
        return (self.base, *self.others)
