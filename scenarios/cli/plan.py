"""``foretrace plan``: what a run would do, without doing it."""

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
    "recorded times vary, and without replicas nobody waits for a rank that happens to be slow; "
    "run --replicas 10 draws them"
)


@app.command()
def plan(
    file: File,
    set: Set = [],  # noqa: B006  typer's form of a repeatable option
    defend: Annotated[
        bool, typer.Option("--defend", help="Of a run that is to be defended, as run --defend.")
    ] = False,
    catalog: Catalogs = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Say what a run would do, and what it would take."""
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
        print_json({"name": scenario.name, **asdict(made), "warnings": facts})
    else:
        _print_plan(made)
        for problem in (*warnings, *too_much):
            typer.echo(str(problem), err=True)
    if too_much:
        raise typer.Exit(WRONG)


def _print_plan(made: Plan) -> None:
    lines = list(_plan_lines(made))
    width = max(len(name) for name, _ in lines) + 2
    for name, text in lines:
        typer.echo(f"{name:<{width}}{text}".rstrip())


def _plan_lines(made: Plan) -> Iterator[tuple[str, str]]:
    from ...reports.numbers import format_quantity
    from ...reports.texts.chain_shares import link_sentences
    from ...reports.texts.changed_ops import rule_text
    from ...reports.texts.untraced_steps import untraced_sentence

    for name, ops in made.ops.items():
        ranks = made.ranks[name]
        if ops is None:
            yield name, "a process, run in every simulation: its ops are known when it has run"
        else:
            yield name, f"{ranks} rank{'s' * (ranks != 1)}, about {ops:,} ops"
    for name, rules in made.rules.items():
        for rule in rules:
            yield "ops", f"{name}: {rule_text(rule)}"
    if made.period:
        yield "each run", f"{made.periods} {made.period}{'s' * (made.periods != 1)}"
    for name, told in made.untraced.items():
        whose = f" ({name})" * (len(made.untraced) > 1)
        yield f"untraced{whose}", untraced_sentence(told)
    count = len(made.ops)
    runs = f"about {made.simulations} simulations of {count} variant{'s' * (count != 1)}"
    also = f"{made.explaining} of them with parts faster or wrong (run --quick leaves these out)"
    defends = f"about {made.defending} that defend the answer, fewer where it flips"
    clauses = (runs, *[also] * bool(made.explaining), *[defends] * bool(made.defending))
    yield "runs", ", ".join(clauses)
    if made.too_quick:
        yield "too quick", TOO_QUICK
    if made.process_runs:
        times = sorted(set(made.process_runs.values()))
        often = " to ".join(str(n) for n in dict.fromkeys((times[0], times[-1])))
        whose = " ".join(made.process_runs) if len(made.process_runs) < count else "each variant"
        yield "processes", f"run in every simulation, about {often} times in {whose}"
    if made.points:
        yield "sweep", f"{made.points} points on {made.processes} processes"
    if made.op_runs is not None:
        took = f"{format_quantity(made.seconds, 's')}, {format_quantity(made.memory, 'B')} each"
        yield "work", f"about {format_quantity(made.op_runs, 'op')}s simulated, {took}"
    for name, chains in made.chains.items():
        whose = f" ({name})" * (len(made.ops) > 1)
        for sentence in link_sentences(chains):
            yield f"answers{whose}", sentence
    for name, media in made.media.items():
        whose = f" ({name})" * (len(made.ops) > 1)
        for medium, parts in media.items():
            carried = ", ".join(f"{part} ({n})" for part, n in parts.items())
            yield f"media{whose}", f"{medium} carries {carried or 'nothing'}"
    yield "devices", "; ".join(made.devices) or "none"
    count = len(made.assumed)
    yield "assumed", f"{count} value{'s' * (count != 1)} that nobody measured{':' * bool(count)}"
    for place, names in _setting_names_by_parent(made.assumed).items():
        yield "", f"{place}: {', '.join(names)}"


def _setting_names_by_parent(paths: list[str]) -> dict[str, list[str]]:
    """Last names of dotted paths by what stands before: ``{"a.b": ["c", "d"]}``."""
    found: dict[str, list[str]] = {}
    for path in paths:
        place, _, name = path.rpartition(".")
        found.setdefault(place, []).append(name)
    return found
