"""``foretrace hil discover``: the hardware of this machine as a cluster section."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

import typer

from ..terminal.common import Json, print_json
from .hil import hil


@hil.command()
def discover(
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File to write.")] = None,
    json: Json = False,
) -> None:
    """Describe this machine as YAML: GPUs, NICs, CXL memory, links and NUMA nodes."""
    from ....hil.discovery import discover as look
    from ...config.catalog import installed

    known = installed(())
    parts = [name for kind in ("gpu", "nic", "cxl") for name in known.names(kind)]
    machine = look(platform.node(), parts=parts)
    if json:
        print_json({
            "host": machine.host,
            "devices": [vars(d) for d in machine.devices],
            "nodes": {str(n): {"processors": c, "bytes": b} for n, (c, b) in machine.nodes.items()},
            "nvlinks": [{"between": list(k), "count": n} for k, n in machine.nvlinks.items()],
        })  # fmt: skip
    elif out is not None:
        out.write_text(machine.yaml())
        typer.echo(f"wrote {out}  {len(machine.devices)} devices")
    else:
        typer.echo(machine.yaml(), nl=False)
