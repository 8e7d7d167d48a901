"""``foretrace hil plan``: a work list, and the agent that does it where nobody can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import ScenarioError
from .common import Json, print_json
from .hil import hil

Ops = Annotated[list[str], typer.Option("--op", help="A signature; repeatable.")]


@hil.command()
def plan(
    file: Annotated[str, typer.Argument(help="A scenario whose ops shall be measured.")] = "",
    driver: Annotated[str, typer.Option(help="Which driver shall measure.")] = "host",
    op: Ops = [],  # noqa: B006  typer's form of a repeatable option
    trace: Annotated[str, typer.Option(help="A trace whose ops: files, or foretrace:NAME.")] = "",
    out: Annotated[Path, typer.Option("--out", help="Folder to carry along.")] = Path("work"),
    repeats: Annotated[int, typer.Option(min=1, help="Of one batch.")] = 10,
    bar: Annotated[float, typer.Option(help="Relative accuracy that it shall judge.")] = 0.1,
    starts: Annotated[int, typer.Option(min=1, help="Of the process, at least.")] = 3,
    seconds: Annotated[float, typer.Option(help="Time limit of all.")] = 600.0,
    json: Json = False,
) -> None:
    """Write a work list for a machine out of reach.  Its agent comes with it; opens nothing."""
    from ...hil.agent.bundle import write_bundle
    from ...hil.driver_registry import make_driver
    from ...hil.measuring.work_list import WorkList
    from ...hil.sample import Request
    from ..studies.op_selection import convolution_strides, op_signatures

    asked = [*op, *op_signatures(file, trace)]
    made = make_driver(driver)
    answered = list(dict.fromkeys(s for s in asked if made.answers(s)))
    left = len(set(asked)) - len(answered)
    if not answered:
        raise ScenarioError(
            f"hil plan: {driver} does none of the {len(set(asked))} ops asked for; "
            f"it does: {', '.join(made.ops)}"
        )
    spec = {"strides": convolution_strides(asked)} if driver == "torch" else {}
    work = WorkList(
        driver,
        tuple(Request(s, repeats) for s in answered),
        spec,
        bar=bar,
        starts=starts,
        most_starts=2 * starts,
        seconds=seconds,
        note=file or trace,
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "work.json").write_text(work.text())
    write_bundle(out / "foretrace-agent.pyz")
    facts = {"ops": len(answered), "not_done_by_driver": left, "folder": str(out)}
    if json:
        print_json(facts)
        return
    typer.echo(f"wrote {out}: {len(answered)} ops for {driver}, {left} that it does not do")
    typer.echo("there: python3 foretrace-agent.pyz --record work.json --out .")
    typer.echo(f"       with NumPy, and what 'foretrace drivers {driver}' says that it needs")
    typer.echo("here:  foretrace hil record --read FILE.rec.gz")
