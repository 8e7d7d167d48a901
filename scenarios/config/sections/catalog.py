"""``catalog``: entries inside a scenario; a resolved scenario has all entries that it uses."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from ..part_specs import KINDS, entry_model
from ..schema import Section, register


def _entries_form(kind: str) -> Any:
    entries: Any = dict[str, entry_model(kind)]  # type: ignore[misc]
    return entries, Field(default_factory=dict, description=f"Entries of kind {kind}, by name.")


Entries = create_model(
    "Entries",
    __base__=Section,
    __doc__="Catalog entries by kind and name; they override installed ones of the same name.",
    **{kind: _entries_form(kind) for kind in KINDS},
)

register("catalog", Entries, Entries())
