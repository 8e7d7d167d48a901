"""``foretrace plan``: what a run would do, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .app import WRONG, app
from .terminal.common import Catalogs, File, Json, Set, print_json

if TYPE_CHECKING:
    from ..studies.run.plan import Plan

TOO_QUICK = (
    "recorded times vary, but without replicas no rank waits for a slow one, so the prediction is "
    "too fast; use run --replicas 10"
)


@app.command()
def plan(
    file: File,
    set: Set = [],  # noqa: B006  typer's form of a repeatable option
    defend: Annotated[bool, typer.Option("--defend", help="Plan a run with --defend.")] = False,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Estimate what a run would do and need."""
    from ..config.loader import load
    from ..studies.run.plan import plan as planned
    from .checks.checks import memory_limit_problems, require_valid

    settings = [*set, *(["run.defend=true"] if defend else [])]
    scenario = load(file, set=settings, catalogs=catalog)
    warnings = require_valid(scenario, "dry run")
    too_much = list(memory_limit_problems(scenario))  # said after the numbers that say how much
    made = planned(scenario)
    if json:
        facts = [p.facts() for p in (*warnings, *too_much)]
        told = {key: fact for key, fact in asdict(made).items() if fact or key != "grids"}
        print_json({"name": scenario.name, **told, "warnings": facts})
    else:
        _print_plan(made)
        for problem in (*warnings, *too_much):
            typer.echo(str(problem), err=True)
    if too_much:
        raise typer.Exit(WRONG)


def _print_plan(plan_facts: Plan) -> None:
    lines = list(_plan_lines(plan_facts))
    width = max(len(name) for name, _ in lines) + 2
    for name, text in lines:
        typer.echo(f"{name:<{width}}{text}".rstrip())


def _plan_lines(plan_facts: Plan) -> Iterator[tuple[str, str]]:
    from ...reports.numbers import format_quantity
    from ...reports.texts.chain_shares import chain_sentences
    from ...reports.texts.changed_ops import rule_text
    from ...reports.texts.grids import grid_sentences
    from ...reports.texts.untraced_steps import untraced_sentence

    for name, ops in plan_facts.ops.items():
        ranks = plan_facts.ranks[name]
        if ops is None:
            yield name, "a process: its ops are known only after a simulation"
        else:
            yield name, f"{ranks} rank{'s' * (ranks != 1)}, about {ops:,} ops"
    for name, rules in plan_facts.rules.items():
        for rule in rules:
            yield "ops", f"{name}: {rule_text(rule)}"
    if plan_facts.period:
        yield (
            "each run",
            f"{plan_facts.periods} {plan_facts.period}{'s' * (plan_facts.periods != 1)}",
        )
    for name, told in plan_facts.untraced.items():
        whose = f" ({name})" * (len(plan_facts.untraced) > 1)
        yield f"untraced{whose}", untraced_sentence(told)
    count = len(plan_facts.ops)
    runs = f"about {plan_facts.simulations} simulations of {count} variant{'s' * (count != 1)}"
    also = (
        f"{plan_facts.explaining} of them for sensitivity and model errors (run --quick skips them)"
    )
    defends = f"about {plan_facts.defending} that defend the answer, fewer where it flips"
    clauses = (runs, *[also] * bool(plan_facts.explaining), *[defends] * bool(plan_facts.defending))
    yield "runs", ", ".join(clauses)
    if plan_facts.explaining_limit:
        yield "explaining", plan_facts.explaining_limit
    if plan_facts.too_quick:
        yield "too quick", TOO_QUICK
    if plan_facts.process_runs:
        times = sorted(set(plan_facts.process_runs.values()))
        often = " to ".join(str(n) for n in dict.fromkeys((times[0], times[-1])))
        whose = (
            " ".join(plan_facts.process_runs)
            if len(plan_facts.process_runs) < count
            else "each variant"
        )
        yield "processes", f"run in every simulation, about {often} times in {whose}"
    if plan_facts.points:
        yield "sweep", f"{plan_facts.points} points on {plan_facts.processes} processes"
    if plan_facts.op_runs is not None:
        memory = format_quantity(plan_facts.memory, "B")
        took = f"{format_quantity(plan_facts.seconds, 's')}, {memory} each"
        yield "work", f"about {format_quantity(plan_facts.op_runs, 'op')}s simulated, {took}"
    for name, chains in plan_facts.chains.items():
        whose = f" ({name})" * (len(plan_facts.ops) > 1)
        for sentence in chain_sentences(chains):
            yield f"answers{whose}", sentence
    for name, grids in plan_facts.grids.items():
        whose = f" ({name})" * (len(plan_facts.ops) > 1)
        for sentence in grid_sentences(grids):
            yield f"grids{whose}", sentence
    for name, media in plan_facts.media.items():
        whose = f" ({name})" * (len(plan_facts.ops) > 1)
        for medium, parts in media.items():
            carried = ", ".join(f"{part} ({n})" for part, n in parts.items())
            yield f"media{whose}", f"{medium} carries {carried or 'nothing'}"
    yield "devices", "; ".join(plan_facts.devices) or "none"
    count = len(plan_facts.assumed)
    yield "assumed", f"{count} value{'s' * (count != 1)} that nobody measured{':' * bool(count)}"
    for place, names in _setting_names_by_parent(plan_facts.assumed).items():
        yield "", f"{place}: {', '.join(names)}"


def _setting_names_by_parent(paths: list[str]) -> dict[str, list[str]]:
    """Last names of dotted paths, grouped by the path before: ``{"a.b": ["c", "d"]}``."""
    found: dict[str, list[str]] = {}
    for path in paths:
        place, _, name = path.rpartition(".")
        found.setdefault(place, []).append(name)
    return found
