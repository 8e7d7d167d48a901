"""``foretrace hil agent``: serve drivers of this machine, or write an agent for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .hil import hil


@hil.command()
def agent(
    bundle: Annotated[
        Path | None, typer.Option(help="Write the agent as one file, which needs NumPy only.")
    ] = None,
    listen: Annotated[
        Path | None, typer.Option(help="Unix socket to serve on; {rank} is replaced by the rank.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Token file, mode 0600, at least 16 characters.")
    ] = None,
    allow: Annotated[list[str], typer.Option(help="Only serve these drivers; repeatable.")] = [],  # noqa: B006  typer's form
    load: Annotated[list[Path], typer.Option(help="File with a driver of your own.")] = [],  # noqa: B006
) -> None:
    """Serve drivers on a socket. ``--bundle`` writes an agent file for another machine."""
    from ....hil.agent.bundle import write_bundle
    from ....hil.agent.command import load_driver_file as load_file
    from ....hil.agent.server import serve_unix_socket as serve
    from ....hil.private_file import read_token

    if (bundle is None) == (listen is None):
        raise typer.BadParameter("give --bundle FILE or --listen SOCKET")
    if bundle is not None:
        write_bundle(bundle)
        typer.echo(f"wrote {bundle}  run it there: python3 {bundle.name} --stdio")
        return
    if token_file is None or listen is None:
        raise typer.BadParameter("--listen needs --token-file")
    for file in load:
        load_file(file)
    typer.echo(f"listens on {listen}; end it with Ctrl-C", err=True)
    serve(listen, read_token(token_file), allow)
