"""``foretrace hil plan`` and ``record``: a work list; doing it, here or where nobody can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...sim.errors import RecordingError, ScenarioError
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
    """Write a work list and an agent that does it offline; opens nothing."""
    from ...hil.bundle import write
    from ...hil.registry import make
    from ...hil.sample import Request
    from ...hil.work import Work
    from ..hil_work import signatures_of, strides_of

    asked = [*op, *signatures_of(file, trace)]
    made = make(driver)
    answered = list(dict.fromkeys(s for s in asked if made.answers(s)))
    left = len(set(asked)) - len(answered)
    if not answered:
        raise ScenarioError(
            f"hil plan: {driver} does none of the {len(set(asked))} ops asked for; "
            f"it does: {', '.join(made.ops)}"
        )
    spec = {"strides": strides_of(asked)} if driver == "torch" else {}
    work = Work(
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
    write(out / "foretrace-agent.pyz")
    facts = {"ops": len(answered), "not_done_by_driver": left, "folder": str(out)}
    if json:
        print_json(facts)
        return
    typer.echo(f"wrote {out}: {len(answered)} ops for {driver}, {left} that it does not do")
    typer.echo("there: python3 foretrace-agent.pyz --record work.json --out .")
    typer.echo(f"       with NumPy, and what 'foretrace drivers {driver}' says that it needs")
    typer.echo("here:  foretrace hil record --read FILE.rec.gz")


@hil.command()
def record(
    work: Annotated[Path | None, typer.Argument(help="A work list of 'hil plan'.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the recording.")] = Path(),
    agent: Annotated[str, typer.Option(help="An agent of your agents.yaml.")] = "",
    busy: Annotated[
        float, typer.Option(help="Cores of the machine that others may use; more is refused.")
    ] = -1.0,
    read: Annotated[Path | None, typer.Option(help="Check and describe a recording.")] = None,
    json: Json = False,
) -> None:
    """Do a work list and keep the answers, or check a recording that came back."""
    if (work is None) == (read is None):
        raise typer.BadParameter("give a work list, or --read RECORDING")
    from ...hil.recording import read as read_recording

    kept = read if read is not None else _recorded(work, out, agent, busy)
    told = _facts(kept, read_recording(kept))
    if json:
        print_json(told)
        return
    typer.echo(f"{kept}: {told['source']}")
    typer.echo(
        f"{told['ops']} ops, {told['samples']} samples, {told['not_fitted']} not to be fitted, "
        f"{told['starts']} starts; two halves of the starts differ by "
        f"{told['between_starts']:.1%} (median), {told['between_starts_p95']:.1%} (p95)"
    )
    if told["ended"]:
        raise RecordingError(f"{kept}: is partial: {told['ended']}; what was measured is kept")


def _recorded(work: Path | None, out: Path, agent: str, busy: float) -> Path:
    from dataclasses import replace

    from ...hil.address import connect
    from ...hil.measure import measure
    from ...hil.recording import SUFFIX
    from ...hil.work import Work
    from .common import teller

    asked = Work.read(work or Path())
    asked = asked if busy < 0 else replace(asked, busy=busy)
    recording = measure(asked, lambda: connect(asked.driver, agent), teller(quiet=False))
    out.mkdir(parents=True, exist_ok=True)
    kept = out / f"{asked.driver}-{recording.date[:10]}{SUFFIX}"
    recording.write(kept)
    return kept


def _facts(path: Path, recording: object) -> dict[str, object]:
    import numpy as np

    from ...hil.recording import Recording
    from ...hil.spread import between_starts, grouped

    if not isinstance(recording, Recording):
        raise TypeError(path)
    apart = [v for v in between_starts(recording.samples).values() if np.isfinite(v)] or [0.0]
    return {
        "file": str(path),
        "source": recording.source,
        "ops": len(grouped(recording.samples)),
        "samples": len(recording.samples),
        "not_fitted": sum(not s.good for s in recording.samples),
        "starts": len({s.start for s in recording.samples}),
        "between_starts": float(np.median(apart)),
        "between_starts_p95": float(np.quantile(apart, 0.95)),
        "ended": recording.ended,
    }
