"""Workloads and runs in the formats of other programs."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from ....sim.errors import ScenarioError
from ....sim.facts.graph import Graph

SCENARIOS = (".yaml", ".yml")


def export_chakra(source: str, out: Path) -> list[Path]:
    """The graph of a scenario's workload, resized as it says, or that of a trace.

    Raises
    ------
    TraceError
        Chakra cannot say it.
    """
    from ....traces.formats import chakra

    name, graph = _named_graph(source)
    return chakra.write(graph, out, prefix=name)


def _named_graph(source: str) -> tuple[str, Graph]:
    from ....traces.formats import chakra
    from ...config.loader import LIBRARY, load
    from ...workloads.trace_files import open_trace, trace_format_of
    from ..building.jobs import graph_of

    if Path(source).suffix in SCENARIOS or (LIBRARY / f"{source}.yaml").is_file():
        scenario = load(source)
        return scenario.name, graph_of(scenario)
    if trace_format_of(source) == "chakra":
        return _common_prefix(source), chakra.read(source)
    return Path(source.removeprefix("foretrace:")).name.split(".")[0], open_trace(source).graph()


def _common_prefix(source: str) -> str:
    """Common prefix of the names of files that a glob or a prefix means."""
    files = sorted(glob(source)) or [source]
    return Path(files[0]).name.split(".")[0]


def export_chrome(source: str, out: Path) -> list[Path]:
    """The timeline of every variant of a saved run.

    Raises
    ------
    ScenarioError
        No saved run, or one whose ops were not kept.
    """
    from ....reports.export.chrome import write_chrome_trace

    folder = Path(source)
    tables = sorted(folder.glob("ops.*.parquet"))
    if not tables:
        raise ScenarioError(
            f"{source}: has no table of ops; name a folder under runs/, or run again with "
            "--keep ops"
        )
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        variant = table.name.removeprefix("ops.").removesuffix(".parquet")
        written.append(out / f"{variant}.json.gz")
        write_chrome_trace(table, written[-1])
    return written
