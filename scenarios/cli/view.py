"""``foretrace view``: every op of one or two runs in the browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...sim.errors import ScenarioError
from .app import INTERRUPTED, app
from .terminal.common import Out, print_error

if TYPE_CHECKING:
    from ...reports.view.view_server import Pages, ViewServer

MOST_RUNS = 2


@app.command()
def view(
    runs: Annotated[
        list[str], typer.Argument(help="One or two run folders, or the beginnings of their names.")
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; by default a free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    out: Out = Path("runs"),
) -> None:
    """Show every op of one or two runs in the browser."""
    from ...reports.view.opened_runs import OpenedRuns, ViewedRun
    from ...reports.view.view_page import view_pages
    from ..studies.folders.saved_runs import find_run_folder

    if len(runs) > MOST_RUNS:
        raise ScenarioError(f"view: {len(runs)} runs are too many; name one or two")
    opened = OpenedRuns([ViewedRun.of(find_run_folder(name, out)) for name in runs], print_error)
    try:
        opened.shown(opened.default_variants)  # what takes long is over when the page asks
        with _server(view_pages(opened), port) as server:
            typer.echo(server.address)
            print_error("open this address; whoever has it can read the run. Ctrl-C ends it")
            sys.stdout.flush()
            if browser:
                typer.launch(server.address)
            server.serve_forever()
    except KeyboardInterrupt:
        print_error("closed")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        opened.close()


def _server(pages: Pages, port: int) -> ViewServer:
    from ...reports.view.view_server import ViewServer

    try:
        return ViewServer(pages, port)
    except OSError as error:
        raise ScenarioError(f"--port {port}: {error.strerror}; give another, or none") from error
