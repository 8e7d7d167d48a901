"""Export of workloads and runs to the formats of other programs."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from ....sim.errors import ScenarioError
from ....sim.facts.graph import Graph

SCENARIOS = (".yaml", ".yml")


def export_chakra(source: str, out: Path) -> list[Path]:
    """Write the graph of a scenario's workload, or of a trace, as Chakra files.

    Raises
    ------
    TraceError
        Chakra cannot represent the graph.
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
    """Common prefix of the file names that match a glob or a prefix."""
    files = sorted(glob(source)) or [source]
    return Path(files[0]).name.split(".")[0]


def export_chrome(source: str, out: Path) -> list[Path]:
    """Write the timeline of every variant of a saved run as Chrome JSON.

    Raises
    ------
    ScenarioError
        There is no saved run, or its ops were not stored.
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
