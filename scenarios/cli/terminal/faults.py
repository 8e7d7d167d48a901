"""Exit code of a command whose answer is saved, but whose explanation failed in part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from ..app import BUG, WRONG

FAILED = {
    "bug": "error a part of the explanation failed: this is a bug in foretrace; the answer is "
    "saved; please report the log above, or run again with --no-cache to see it",
    "plug-in": "error a part of the explanation failed in a plug-in; the answer is saved",
}


def exit_if_any_fault(unexplained: Iterable[Mapping[str, Any]]) -> None:
    """End the command with an error if a part of the explanation failed by a bug or in a plug-in.

    Parameters
    ----------
    unexplained : what could not be explained, as in ``summary.json``
    """
    kinds = {one["kind"] for one in unexplained}
    for kind, code in (("bug", BUG), ("plug-in", WRONG)):
        if kind in kinds:
            typer.echo(FAILED[kind], err=True)
            raise typer.Exit(code)
