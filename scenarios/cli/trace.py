"""``foretrace trace``: record, import and describe traces."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...sim.errors import TraceError
from ..studies.folders.writing import writing
from .app import app
from .terminal.common import Json, command_line, print_json

if TYPE_CHECKING:
    from ...sim.facts.graph import Graph
    from ...traces.infer.trace_info import TraceInfo

trace = typer.Typer(name="trace", help="Record, import and describe traces.", no_args_is_help=True)
app.add_typer(trace)

Files = Annotated[
    list[str],
    typer.Argument(help="Kineto or Chakra files, a glob, a native folder, or foretrace:NAME."),
]

Categories = Annotated[
    list[str],
    typer.Option(
        "--category",
        metavar="NAME=KIND",
        help="Kind of an unknown category: kernel, copy, runtime, operator, ignore; repeatable.",
    ),
]


@trace.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def capture(
    command: Annotated[list[str], typer.Argument(help="Command to record: -- python train.py …")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the recording.")] = Path("trace"),
    steps: Annotated[int, typer.Option(min=1, help="Steps to trace.")] = 10,
    warm_up: Annotated[int, typer.Option(min=0, help="First steps to skip.")] = 3,
    untraced: Annotated[int, typer.Option(min=0, help="Steps to time without the profiler.")] = 10,
    stack: Annotated[bool, typer.Option("--stack", help="Record Python stacks.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Record allocations.")] = False,
    meta: Annotated[
        bool,
        typer.Option("--meta", help="Record ops, shapes and sizes of one step without running it."),
    ] = False,
) -> None:
    """Record steps of an unchanged training script."""
    if meta:
        if (steps, warm_up, untraced, stack, memory) != (10, 3, 10, False, False):
            raise TraceError(
                "--meta: records one step and its memory after one warm-up step; remove --steps, "
                "--warm-up, --untraced, --stack and --memory"
            )
        _capture_meta(command, out)
        return
    from ...traces.capture.launcher import capture as record

    files = record(
        command, out, steps=steps, warm_up=warm_up, untraced=untraced, stack=stack, memory=memory
    )
    for file in files:
        typer.echo(f"wrote {file}")
    typer.echo(f"next: foretrace trace info '{out}/rank*.json.gz'")


def _capture_meta(command: list[str], out: Path) -> None:
    """Record a step without running it, and print its size."""
    from ...traces.capture.meta import capture_meta

    file, facts = capture_meta(command, out)
    parts = [f"{facts['parameters']:,} parameters"]
    for name in ("parameter", "kept", "peak"):
        words = {"parameter": "weights", "kept": "kept for the backward pass", "peak": "peak"}
        parts.append(f"{words[name]} {facts[f'{name}_bytes'] / 2**20:.4g} MiB")
    typer.echo(f"wrote {file}")
    typer.echo(f"{', '.join(parts)}; no times: run it on a GPU of the catalog")
    typer.echo(f"next: foretrace trace info '{file}'")


@trace.command("import")
def import_(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="Folder for the native form.")],
    execution_trace: Annotated[
        list[Path],
        typer.Option(help="PyTorch execution trace of the same run, one per rank; repeatable."),
    ] = [],  # noqa: B006  typer's form of a repeatable option
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Remove your own names, paths and hosts.")
    ] = False,
    category: Categories = [],  # noqa: B006
) -> None:
    """Convert Kineto traces to the native format (parquet)."""
    from ...traces.formats import native
    from ...traces.step_times import tables_next_to
    from ..workloads.trace_files import paths

    found = _open_trace(files, category)
    beside = tables_next_to([path for name in files for path in paths(name)])
    tables = {table.name: table.read_bytes() for table in beside}
    if execution_trace:
        from ...traces.formats.execution_trace import add_execution_traces

        found = add_execution_traces(found, execution_trace)
    if anonymise:
        from ...traces.transform.anonymise import anonymise as hide

        found = hide(found)
    native.write(found, out)
    for name, content in tables.items():
        (out / name).write_bytes(content)
    typer.echo(f"wrote {out}  {len(found):,} events, ranks {', '.join(map(str, found.ranks))}")


@trace.command()
def info(
    files: Files,
    on: Annotated[
        list[str], typer.Option("--on", help="Catalog GPU on which to run the trace; repeatable.")
    ] = ["h100-sxm5-80g"],  # noqa: B006  typer's form of a repeatable option
    recorded_on: Annotated[
        str, typer.Option("--recorded-on", help="Catalog GPU that recorded it.")
    ] = "",
    category: Categories = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Show what a trace holds, what it can be used for, and which backends time its kernels."""
    from dataclasses import asdict

    from ...reports.texts.chain_shares import chain_sentences
    from ...reports.texts.untraced_steps import untraced_sentence
    from ...traces.step_times import untraced_steps_summary
    from ..studies.explaining.trace_answers import link_shares_by_gpu
    from ..workloads.trace_files import paths

    told, graph = _described(files, category)
    untraced = untraced_steps_summary([path for name in files for path in paths(name)], graph)
    chains = link_shares_by_gpu(graph, on, recorded_on) if graph is not None else {}
    if json:
        print_json({**asdict(told), "chains": chains, "untraced": untraced})
        return
    typer.echo(str(told))
    if untraced:
        typer.echo(f"{'untraced':<10} {untraced_sentence(untraced)}")
    for gpu, shares in chains.items():
        for sentence in chain_sentences({"gpu": shares}):
            typer.echo(f"{'on ' + gpu:<10} {sentence}")


@trace.command()
def report(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write.")] = Path(
        "trace.html"
    ),
    category: Categories = [],  # noqa: B006
    allow_lost: Annotated[
        bool, typer.Option("--allow-lost", help="Accept a recording that lost GPU work or steps.")
    ] = False,
    json: Json = False,
) -> None:
    """Show where the time of recorded files goes, and which rank is late; needs no scenario."""
    from ...reports.recorded.recorded_page import recorded_page
    from ..studies.run.recorded_run import recorded_run, recorded_summary
    from .terminal.show_recorded import print_recorded

    world, graph = _graph_as_recorded(files, category, allow_lost)
    result = recorded_run(graph)
    summary = {**recorded_summary(graph, result), "world": world, "files": files}
    with writing(output, "-o"):
        output.write_text(recorded_page(summary, result, command_line()), encoding="utf-8")
    if json:
        print_json({**summary, "page": str(output)})
        return
    print_recorded(summary)
    typer.echo(f"\nwrote {output}")


class ExportFormat(StrEnum):
    """Formats of exported files."""

    chakra = "chakra"
    chrome = "chrome"


@trace.command()
def export(
    source: Annotated[str, typer.Argument(help="A scenario, a trace, or a saved run (chrome).")],
    form: Annotated[ExportFormat, typer.Option("--format", help="Format to write.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("export"),
) -> None:
    """Write a workload as Chakra files, or a run as Chrome JSON."""
    from ..studies.run.export import export_chakra, export_chrome

    write = export_chakra if form is ExportFormat.chakra else export_chrome
    for path in write(source, out):
        typer.echo(f"wrote {path}")


def _described(files: list[str], category: list[str]) -> tuple[TraceInfo, Graph | None]:
    """Description and graph of recorded files; the graph is None if none can be inferred."""
    from ..workloads.trace_files import trace_format_of

    if trace_format_of(files[0]) != "chakra":
        described: tuple[TraceInfo, Graph | None] = _open_trace(files, category).info_and_graph()
        return described
    if category:
        raise TraceError("--category: does not apply to Chakra files, which have none; remove it")
    from ...traces.formats import chakra
    from ...traces.infer.graph_info import graph_info

    graph = chakra.read(files[0] if len(files) == 1 else files)
    return graph_info(graph), graph


def _graph_as_recorded(
    files: list[str], category: list[str], allow_lost: bool
) -> tuple[int, Graph]:
    """Number of ranks of the job, and the graph of recorded files.

    Raises
    ------
    TraceError
        They have no graph, or GPU work was lost; the message gives the reason.
    """
    told, graph = _described(files, category)
    if why := told.recording.refusal(allow_lost):
        raise TraceError(why)
    if graph is None or not graph.facts.get("timed", True):
        raise TraceError(f"{files[0]}: {told.find_use('replay').why}")
    return told.world, graph


def _open_trace(files: list[str], category: list[str]):  # type: ignore[no-untyped-def]
    from ...traces.formats import kineto
    from ..workloads.trace_files import open_trace

    found = open_trace(files[0]) if len(files) == 1 else kineto.read(files)
    return found.with_categories(dict(map(_category_setting, category)))


def _category_setting(text: str) -> tuple[str, str]:
    """Category and kind of one ``--category NAME=KIND``."""
    name, equals, kind = text.rpartition("=")
    if not equals:
        raise TraceError(
            f"--category: '{text}' has no kind; write NAME=KIND, such as {text}=kernel"
        )
    return name, kind
