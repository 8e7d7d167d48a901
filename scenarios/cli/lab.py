"""``foretrace lab``: virtual machines with the real RDMA, CXL and switch drivers of Linux."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from .app import app

lab = typer.Typer(
    name="lab",
    help="Small virtual machines that run real RDMA, CXL and switch drivers.",
    no_args_is_help=True,
)
app.add_typer(lab)


@lab.command()
def up(
    machines: Annotated[list[str], typer.Argument(help="uml, qemu; both by default.")] = [],  # noqa: B006  typer's form
    again: Annotated[bool, typer.Option(help="Rebuild existing machines.")] = False,
) -> None:
    """Build the virtual machines from Debian packages, boot them, and print their versions."""
    from ...hil.lab.build import boot_test_report, build_machines
    from ...hil.lab.build_cache import built_versions, lab_folder

    for machine in build_machines(machines, again, typer.echo):
        typer.echo(f"{machine:<5} {boot_test_report(machine)}")
    typer.echo(f"kept in {lab_folder()}:")
    for name, version in built_versions().items():
        typer.echo(f"  {name:<24} {version}")


@lab.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Work lists; all by default.")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Folder for the recordings.")] = None,
) -> None:
    """Run the work lists of the lab, and compare the results with earlier recordings."""
    from ...hil.lab.campaign_recording import comparison_lines, record_campaign
    from ...hil.lab.campaigns import select_campaigns

    for planned in select_campaigns(names):
        typer.echo(f"{planned.name}: {planned.work.note}")
        recording = record_campaign(planned, lambda text: typer.echo(f"  {text}", err=True))
        for line in comparison_lines(planned.name, recording):
            typer.echo(f"  {line}")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            recording.write(out / f"{planned.name}.rec.gz")


@lab.command()
def down() -> None:
    """Remove all built virtual machines."""
    from ...hil.lab.build_cache import lab_folder

    shutil.rmtree(lab_folder(), ignore_errors=True)
    typer.echo(f"removed {lab_folder()}")
