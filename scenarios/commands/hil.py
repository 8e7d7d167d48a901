"""``foretrace hil``: hardware in the loop."""

from __future__ import annotations

import typer

from .app import app

hil = typer.Typer(name="hil", help="Hardware in the loop.", no_args_is_help=True)
app.add_typer(hil)
