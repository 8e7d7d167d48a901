"""The first check: every tree against the schema and the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from ..catalog import faults
from ..draft import Draft
from ..problems import Problem
from .tree import find


def schema(draft: Draft) -> Iterator[Problem]:
    """Unknown keys, wrong types and units, missing values, parts that no catalog has."""
    if own := find(draft.tree, ("catalog",)):
        yield from faults(own)
    yield from draft.refused
    for variant in draft.variants:
        yield from variant.problems
