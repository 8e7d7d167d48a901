"""``foretrace hil plan``: a work list and an agent, for a machine without network access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....sim.errors import ScenarioError
from ..terminal.common import Json, print_json
from .hil import hil

if TYPE_CHECKING:
    from ....hil.measuring.work_list import WorkList

Ops = Annotated[list[str], typer.Option("--op", help="Signature of an op; repeatable.")]
GPU, PLAN = "gpu", "plan.json"
REPEATS, STARTS, MOST = 10, 3, 2  # defaults; MOST: largest number of starts over the smallest


@hil.command()
def plan(
    file: Annotated[
        str,
        typer.Argument(
            help="A scenario: the ops of its hil.swap, or without a swap all of its ops. gpu: all "
            "op families of one GPU."
        ),
    ] = "",
    driver: Annotated[
        str, typer.Option(help="Driver that measures; by default that of hil.swap, or host.")
    ] = "",
    agent: Annotated[
        str, typer.Option(help="Agent in your agents.yaml that loads a driver of your own.")
    ] = "",
    option: Annotated[list[str], typer.Option(help="Driver option KEY=VALUE; repeatable.")] = [],  # noqa: B006  typer's form of a repeatable option
    op: Ops = [],  # noqa: B006
    trace: Annotated[
        str, typer.Option(help="Trace whose ops to measure: files, or foretrace:NAME.")
    ] = "",
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("work"),
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats in a batch.")] = None,
    bar: Annotated[
        float | None, typer.Option(help="Relative error that the data must resolve.")
    ] = None,
    starts: Annotated[
        int | None, typer.Option(min=1, help="Least number of process starts.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Total time limit in s.")] = None,
    hours: Annotated[
        float | None, typer.Option(min=0.0, help="Duration of 'hil plan gpu' in hours; 2.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a work list and an agent for another machine; opens no device."""
    from ....hil.agent.bundle import write_bundle

    if file == GPU:
        rest = (driver, agent, op, trace, repeats, bar, starts, seconds)
        _plan_gpu(out, option, hours, any(rest), json)
        return
    if hours is not None:
        raise ScenarioError("hil plan: --hours is for 'hil plan gpu' only; write --seconds")
    said = {"bar": bar, "starts": starts, "seconds": seconds}
    said = {k: v for k, v in said.items() if v is not None}
    if starts is not None:
        said["most_starts"] = MOST * starts
    plans = {} if driver or agent or option or op or trace else _plans_of_swaps(file)
    if not plans:
        plans = {"work": _plan_of_ops(driver or "host", agent, option, op, file, trace)}
    works = {name: (_changed(work, said, repeats), files, left)
             for name, (work, files, left) in plans.items()}  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_bundle(out / "foretrace-agent.pyz")
    for name, (work, files, _) in works.items():
        (out / f"{name}.json").write_text(work.text())
        for one in files:
            (out / one.name).write_bytes(one.read_bytes())
    if json:
        ops = sum(len(work.requests) for work, _, _ in works.values())
        left_out = sum(left for _, _, left in works.values())
        print_json({"ops": ops, "not_done_by_driver": left_out, "folder": str(out),
                    "work": {n: w.driver for n, (w, _, _) in works.items()}})  # fmt: skip
        return
    for name, (work, files, left) in works.items():
        typer.echo(
            f"wrote {out}: {len(work.requests)} ops for {work.driver}, {left} not supported by it"
        )
        loads = "".join(f"--load {one.name} " for one in files)
        typer.echo(f"there: python3 foretrace-agent.pyz {loads}--record {name}.json --out .")
        typer.echo(f"       with NumPy, and what 'foretrace drivers {work.driver}' says it needs")
    typer.echo("here:  foretrace hil record --read FILE.rec.gz")


def _plan_gpu(out: Path, option: list[str], hours: float | None, other: bool, json: bool) -> None:
    """Write a plan for all kernel families of one GPU, and the agent that runs it."""
    from ....hil.agent.bundle import write_bundle
    from ....hil.measuring.plan_run import time_text
    from ...studies.fitting.gpu_plan import HOURS, gpu_plan

    settings = {"device": "cuda:0", **dict(map(_read_option, option))}
    if other or set(settings) != {"device"}:
        raise ScenarioError(
            "hil plan gpu: takes only --out, --hours and --option device=cuda:N; remove the other "
            "options"
        )
    made = gpu_plan(str(settings["device"]), HOURS if hours is None else hours)
    out.mkdir(parents=True, exist_ok=True)
    (out / PLAN).write_text(made.text())
    write_bundle(out / "foretrace-agent.pyz")
    ops = sum(len(p.work.requests) for p in made.pieces)
    if json:
        pieces = [{"name": p.name, "ops": len(p.work.requests), "seconds": p.seconds}
                  for p in made.pieces]  # fmt: skip
        print_json({"ops": ops, "rounds": made.rounds, "seconds": made.seconds,
                    "pieces": pieces, "folder": str(out)})  # fmt: skip
        return
    typer.echo(f"wrote {out}: {ops} ops in {len(made.pieces)} pieces, {made.rounds} rounds, about "
               f"{time_text(made.seconds)}; the first round of "
               f"{time_text(made.seconds / made.rounds)} measures each op once")  # fmt: skip
    typer.echo(f"there: python3 foretrace-agent.pyz --plan {PLAN} --out kept")
    typer.echo("       again after any stop: it goes on.  With NumPy, torch and nvidia-ml-py")
    typer.echo("here:  foretrace fit gpu --recording kept/gpu.rec.gz --start ENTRY -o mine.yaml")


Plan = tuple["WorkList", list[Path], int]  # with files of the driver, and ops that it cannot do


def _changed(work: WorkList, overrides: Mapping[str, Any], repeats: int | None) -> WorkList:
    """Copy of a work list with the limits and the number of repeats given on the command line."""
    changed = replace(work, **overrides)
    if repeats is None:
        return changed
    return replace(changed, requests=tuple(replace(r, n=repeats) for r in work.requests))


def _plans_of_swaps(file: str) -> dict[str, Plan]:
    """Work list of each live device of a scenario, by file name; {} for none."""
    from ...config.hil_settings import hil_section
    from ...config.loader import load
    from ...studies.accuracy.open_devices import RECORDED
    from ...studies.accuracy.replay import ops_asked_of_devices, work_list_of_swap
    from ...studies.variants.variants import build_variants

    scenario = load(file) if file else None
    section = hil_section(scenario) if scenario is not None else None
    live = [s for s in section.swap if s.driver != RECORDED] if section else []
    if scenario is None or section is None or not live:
        return {}
    asked = ops_asked_of_devices(build_variants(scenario)[0], section)
    found = {}
    for swap in live:
        ops = asked[swap.component]
        work = replace(work_list_of_swap(section, swap, ops), note=file)
        left = len({q.signature for q in ops if not q.supported})
        name = "work" if len(live) == 1 else swap.component
        found[name] = (work, _files_of_driver(swap.driver, swap.agent), left)
    return found


def _plan_of_ops(
    driver: str, agent: str, option: list[str], op: list[str], file: str, trace: str
) -> Plan:
    """Work list of the named ops, or of those of a scenario or trace.

    Raises
    ------
    ScenarioError
        The driver supports none of them.
    """
    from ....hil.measuring.work_list import WorkList
    from ....hil.sample import Request
    from ...studies.accuracy.stand_in import driver_class
    from ...studies.run.op_selection import convolution_strides, op_signatures

    asked = [*op, *op_signatures(file, trace)]
    made = driver_class(driver, agent)()
    answered = list(dict.fromkeys(s for s in asked if made.answers(s)))
    if not answered:
        raise ScenarioError(
            f"hil plan: {driver} supports none of the {len(set(asked))} ops; it supports "
            f"{', '.join(made.ops)}"
        )
    spec = {"strides": convolution_strides(asked)} if driver == "torch" else {}
    work = WorkList(
        driver,
        tuple(Request(s, REPEATS) for s in answered),
        {**spec, **dict(map(_read_option, option))},
        starts=STARTS,
        most_starts=MOST * STARTS,
        seconds=600.0,
        note=file or trace,
    )
    return work, _files_of_driver(driver, agent), len(set(asked)) - len(answered)


def _read_option(text: str) -> tuple[str, Any]:
    """Parse a driver option KEY=VALUE; the value is read as YAML."""
    from ...config.reading.document import parse_yaml
    from ...config.reading.tree import to_dict

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ScenarioError(f"--option '{text}': write it like core=1")
    told: Any = to_dict(parse_yaml(f"v: {value}", "--option"))
    return key, told["v"]


def _files_of_driver(driver: str, agent: str) -> list[Path]:
    """Python files that define a user's own driver, to be copied with the work list."""
    from ....hil.agent.declared_drivers import files_with_driver

    return files_with_driver(driver, agent) if agent else []
