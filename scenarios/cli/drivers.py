"""``foretrace drivers``: which hardware drivers work here, and what the others need."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .app import NO_HARDWARE, app
from .terminal.common import Json, print_json

LIMIT = 60.0  # s for one real op, a slow import included


@app.command()
def drivers(
    names: Annotated[
        list[str], typer.Argument(help="Only these drivers; exit code 4 if one is missing.")
    ] = [],  # noqa: B006  typer's form
    agent: Annotated[str, typer.Option(help="Name of an agent in your agents.yaml.")] = "",
    json: Json = False,
) -> None:
    """Test each driver with one real op in its own process."""
    from ...hil.driver_registry import known_drivers

    rows = [_describe_driver(name, agent) for name in names or known_drivers()]
    if json:
        print_json({"agent": agent or "here", "drivers": rows})
    else:
        for row in rows:
            _print_driver(row)
    if names and not all(r["state"] == "ready" for r in rows):
        raise typer.Exit(NO_HARDWARE)


def _describe_driver(name: str, agent: str) -> dict[str, Any]:
    """Description of a driver, or the reason why it does not work."""
    from ...hil.connection import connect_driver
    from ...hil.driver import Missing
    from ...sim.errors import DriverFault

    try:
        remote = connect_driver(name, agent, LIMIT)
        try:
            state = remote.probe()
        finally:
            remote.close()
    except DriverFault as fault:
        return {"driver": name, "state": fault.kind, "reason": fault.message, "cure": ""}
    if isinstance(state, Missing):
        return {"driver": name, "state": state.kind, "reason": state.reason, "cure": state.cure}
    traits = {"clock": remote.clock, "metric": remote.metric, "sharing": remote.sharing}
    return {
        "driver": name,
        "state": "ready",
        "devices": list(state.devices),
        **traits,
        "realtime": remote.realtime,
        "facts": dict(state.facts),
    }


def _print_driver(row: dict[str, Any]) -> None:
    head = f"{row['driver']:<11} {row['state']:<12}"
    if row["state"] == "ready":
        what = f"{row['clock']} clock, {row['metric']}, {row['sharing']}"
        typer.echo(f"{head} {', '.join(row['devices']) or '-'}  ({what})")
        return
    typer.echo(f"{head} {row['reason']}")
    if row["cure"]:
        typer.echo(f"{'':<24} cure: {row['cure']}")
