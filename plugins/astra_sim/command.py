"""``foretrace astra-sim``: begin with what one has for ASTRA-sim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...scenarios.cli.app import app


@app.command(name="astra-sim")
def astra_sim(
    network: Annotated[Path, typer.Option(help="Its --network-configuration (YAML).")],
    system: Annotated[Path, typer.Option(help="Its --system-configuration (JSON).")],
    workload: Annotated[str, typer.Option(help="Prefix of its Chakra files.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The scenario to write.")] = Path(
        "astra-sim.yaml"
    ),
) -> None:
    """Write a scenario from the inputs of ASTRA-sim."""
    import os

    from ...sim.errors import ScenarioError
    from .network_and_system import chakra_file_form, scenario_text

    if out.exists():
        raise ScenarioError(f"{out}: exists; name another file with --out, or remove it")
    from_there = os.path.relpath(workload, out.parent)  # a scenario's paths are its own
    form = chakra_file_form(workload, network)
    text = scenario_text(network, system, from_there, out.stem, form)
    out.write_text(text)
    typer.echo(f"wrote {out}\nnext: foretrace run {out}")
