"""``foretrace hil``: hardware in the loop; its commands, one file each."""

from __future__ import annotations

from importlib import import_module

import typer

from ..app import app

COMMANDS = ("hil_agent", "hil_plan", "hil_record", "hil_discover", "hil_check")

hil = typer.Typer(name="hil", help="Hardware in the loop.", no_args_is_help=True)
app.add_typer(hil)

for _name in COMMANDS:  # each needs `hil` above, so none is imported before it is there
    import_module(f".{_name}", __package__)
