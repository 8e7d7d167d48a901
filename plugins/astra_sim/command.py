"""``foretrace astra-sim``: convert ASTRA-sim input files to a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...scenarios.cli.app import app


@app.command(name="astra-sim")
def astra_sim(
    network: Annotated[Path, typer.Option(help="ASTRA-sim's --network-configuration file (YAML).")],
    system: Annotated[Path, typer.Option(help="ASTRA-sim's --system-configuration file (JSON).")],
    workload: Annotated[
        str, typer.Option(help="Path prefix of the Chakra files, without rank number.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Scenario file to write.")] = Path(
        "astra-sim.yaml"
    ),
) -> None:
    """Write a scenario from the inputs of ASTRA-sim."""
    import os

    from ...sim.errors import ScenarioError
    from .network_and_system import chakra_file_form, scenario_text

    if out.exists():
        raise ScenarioError(f"{out}: already exists; give another file with --out, or remove it")
    from_there = os.path.relpath(workload, out.parent)  # paths are relative to the scenario
    form = chakra_file_form(workload, network)
    text = scenario_text(network, system, from_there, out.stem, form)
    out.write_text(text)
    typer.echo(f"wrote {out}\nnext: foretrace run {out}")
