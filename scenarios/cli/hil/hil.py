"""``foretrace hil``: commands for hardware in the loop, one file each."""

from __future__ import annotations

import typer

from ..app import app
from ..terminal.discovery import import_commands

FIRST = ("hil_agent", "hil_plan", "hil_record", "hil_discover", "hil_check")

hil = typer.Typer(name="hil", help="Hardware in the loop.", no_args_is_help=True)
app.add_typer(hil)

import_commands(__package__, FIRST, skip="hil")  # each needs `hil` above
