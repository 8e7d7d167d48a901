"""The first check: every tree against the schema and the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from ..catalog import values_without_source
from ..draft import Draft
from ..problems import Problem
from .tree import find_node


def schema_problems(draft: Draft) -> Iterator[Problem]:
    """Problems of unknown keys, wrong types and units, missing values and unknown catalog names."""
    if own := find_node(draft.tree, ("catalog",)):
        yield from values_without_source(own)
    yield from draft.inapplicable_variant_problems
    for variant in draft.variants:
        yield from variant.problems
