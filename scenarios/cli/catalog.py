"""``foretrace catalog``: catalog entries, each value with its source."""

from __future__ import annotations

from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .app import app
from .terminal.common import Catalogs, Json, print_json


@app.command()
def catalog(
    kind: Annotated[str, typer.Argument(help="Kind: gpu, nic, switch, link, memory, host …")] = "",
    name: Annotated[str, typer.Argument(help="Name of an entry.")] = "",
    directories: Catalogs = [],  # noqa: B006  typer's form of a repeatable option
    json: Json = False,
) -> None:
    """List catalog entries, or show one with the source of each value."""
    from ..config.catalog import installed
    from ..config.part_specs import KINDS
    from ..config.problems import did_you_mean_text
    from ..config.reading.tree import leaf_nodes

    known = installed(map(str, directories))
    if kind and kind not in KINDS:
        parts = [f"{k} {n}" for k in KINDS for n in known.names(k) if kind.casefold() in n]
        hint = f"; foretrace catalog {parts[0]}" if parts else did_you_mean_text(kind, KINDS)
        raise ScenarioError(f"catalog: no kind '{kind}'{hint}")
    if name:
        entry = known.entry(kind, name)
        if entry is None:
            raise ScenarioError(
                f"catalog: no {kind} '{name}'{did_you_mean_text(name, known.names(kind))}"
            )
        rows = [
            {
                "setting": ".".join(map(str, path)),
                "value": str(n.value),
                **(n.source.facts() if n.source else {}),
            }
            for path, n in leaf_nodes(entry)
        ]
        if json:
            print_json({"kind": kind, "name": name, "values": rows})
            return
        for row in rows:
            typer.echo(f"{row['setting']:<24} {row['value']:<16} {row.get('kind', ''):<10} "
                       f"{row.get('where', '')}")  # fmt: skip
        return
    listed = {k: known.names(k) for k in ([kind] if kind else KINDS)}
    if json:
        print_json(listed)
        return
    for k, names in listed.items():
        typer.echo(f"{k:<8} {', '.join(names)}")
