"""What is read: a target makes a file of an input and reads it as a user's command would.

An input is a JSON value, which is changed as a tree, or bytes, which are changed as bytes.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import protocol_targets
from foretrace.hil import recording as recordings
from foretrace.hil.bundled_recordings import recording_path
from foretrace.models.compute.families import FORM, Families
from foretrace.models.compute.table import MeasuredTable as Times
from foretrace.plugins.astra_sim.network_and_system import scenario_text
from foretrace.scenarios.cli import app as application
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.reading.document import parse_yaml
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.scenarios.studies.sweep.outcomes import OutcomeStore
from foretrace.sim.errors import ForetraceError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import System
from foretrace.traces import step_times
from foretrace.traces.column_table import ColumnTable
from foretrace.traces.formats import chakra, execution_trace, kineto, native
from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "scenarios")]
WHOLE = (HERE / "scenario.yaml").read_text()
PARTS = (HERE / "parts.yaml").read_text()
SMALLER = WHOLE.partition("\nsweep:")[0]  # checked six times as fast
TINY = """\
foretrace: 1
name: tiny
workload: {trace: rank0.json, recorded_on: {device: epyc-zen4-core}}
cluster: {nodes: 1, node: {gpu: epyc-zen4-core, host: {cores: 2}}}
what_if: [{name: slow, set: {cluster.override.node0.gpu0.slowdown: 1.5}}]
run: {seed: 3, replicas: 2}
expect: [{that: iteration_time.p50 <= 1 s}]
"""


class Target(NamedTuple):
    """Inputs to begin with, and what is done with one in an empty folder.

    Parameters
    ----------
    read : refuses by a ForetraceError whose text names a cure, or takes it
    """

    seeds: list[Any]
    read: Callable[[Any, Path], object]


def put(path: Path, value: Any) -> Path:
    """An input as a file."""
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def scenario(value: Any, folder: Path) -> None:
    load(put(folder / "s.yaml", value), catalogs=[_parts(folder, PARTS.encode())])


def _parts(folder: Path, value: Any) -> Path:
    """A catalog of one file."""
    (folder / "parts").mkdir()
    put(folder / "parts" / "parts.yaml", value)
    return folder / "parts"


def setting(value: Any, folder: Path) -> None:
    where = _parts(folder, PARTS.encode())
    texts = value.decode("utf-8", "replace").splitlines() if isinstance(value, bytes) else []
    texts = texts or [f"{k}={json.dumps(v)}" for k, v in _pairs(value)]
    loads(SMALLER, set=texts, catalogs=[where])


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def catalog(value: Any, folder: Path) -> None:
    loads(SMALLER, catalogs=[_parts(folder, value)])


def profile(value: Any, folder: Path) -> None:
    trace = kineto.read(put(folder / "rank0.json", value))
    str(trace.info())
    trace.graph(missing_ranks="recorded_waits", serialise=True)


def packed(value: Any, folder: Path) -> None:
    """A native trace: the manifest changed as a tree, or one of its tables as bytes."""
    (folder / "t").mkdir()
    for file, content in NATIVE.items():
        put(folder / "t" / file, content)
    put(folder / "t" / ("events.parquet" if isinstance(value, bytes) else "trace.json"), value)
    trace = native.read(folder / "t")
    str(trace.info())
    trace.graph(missing_ranks="recorded_waits", serialise=True)


def columns(value: Any, folder: Path) -> None:
    """A native trace with other numbers in its tables."""
    trace = _trace(folder)
    tables = {k: v for k, v in vars(trace).items() if isinstance(v, ColumnTable)}
    for change in value if isinstance(value, list) else ():
        if not isinstance(change, list) or len(change) != 4:
            continue
        table, name, row, number = change
        column = tables[table].columns.get(str(name)) if str(table) in tables else None
        if column is not None and len(column) and isinstance(number, int) and isinstance(row, int):
            bounds = np.iinfo(column.dtype)
            column[row % len(column)] = min(max(number, bounds.min), bounds.max)
    again = native.read(native.write(trace, folder / "out"))
    str(again.info())
    again.graph(missing_ranks="recorded_waits", serialise=True)


def graphs(value: Any, folder: Path) -> None:
    """A Chakra trace: messages as bytes, or its JSON form."""
    many = isinstance(value, list)
    text = b"\n".join(json.dumps(v).encode() for v in value) if many else value
    put(folder / "x.0.et", text)
    chakra.read(folder / "x")


def inputs(value: Any, folder: Path) -> None:
    put(folder / "rank0.json", {"traceEvents": EVENTS})
    trace = kineto.read(folder / "rank0.json")
    execution_trace.add_execution_traces(trace, [put(folder / "et.json", value)])


def steps(value: Any, folder: Path) -> None:
    put(folder / "rank0.steps.csv", value)
    step_times.read([folder])


def points(value: Any, folder: Path) -> None:
    """What a sweep keeps to resume."""
    put(folder / "a.jsonl", value)
    list(OutcomeStore(folder).outcomes())


def table(value: Any, folder: Path) -> None:
    Times(file=str(put(folder / "times.csv", value))).open(NOTHING)


def families(value: Any, folder: Path) -> None:
    Families(file=str(put(folder / "families.json", value))).open(NOTHING)


def recording(value: Any, folder: Path) -> None:
    packed = value[:2] == b"\x1f\x8b"
    recordings.read(put(folder / "x.rec.gz", value if packed else gzip.compress(value, 1)))


def network(value: Any, folder: Path) -> None:
    said = value if isinstance(value, dict) else {}
    net, system = said.get("network", ""), said.get("system", {})
    (folder / "net.yml").write_text(net if isinstance(net, str) else json.dumps(net))
    put(folder / "sys.json", system)
    loads(scenario_text(folder / "net.yml", folder / "sys.json", "steps", "s"))


def command(value: Any, folder: Path) -> None:
    """``foretrace run``, its answer and its folder."""
    put(folder / "rank0.json", {"traceEvents": EVENTS})
    put(folder / "s.yaml", value)
    code = _run("run", "s.yaml", "--out", "out", "--json")
    left = {path.name for path in folder.iterdir()} - {"rank0.json", "s.yaml", "out"}
    if code not in (0, 2, 3, 4, 5) or left:
        raise AssertionError(f"exit code {code}, and beside its folder {left}")


def _run(*words: str) -> int:
    sys.argv = ["foretrace", *words]
    said = StringIO()
    try:
        with redirect_stdout(StringIO()), redirect_stderr(said):
            application.main()
    except SystemExit as left:
        if left.code == 1:
            raise AssertionError(said.getvalue()[-3000:]) from left
        return int(left.code or 0)
    return 0


def _trace(folder: Path) -> Any:
    return kineto.read(put(folder / "seed.json", {"traceEvents": EVENTS}))


def _event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Any:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def _all(rank: int) -> dict[str, Any]:
    """Something of everything that a profiler writes."""
    together = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4, "Seq": 1,
                "Out msg nelems": 4, "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
                "Group size": 2}  # fmt: skip
    events = []
    for k in range(2):
        at = 100.0 * k
        shapes = {"Input Dims": [[4, 8], []], "Input type": ["float", "Scalar"]}
        events += [
            _event("user_annotation", f"ProfilerStep#{k}", at, 100),
            _event("cpu_op", "aten::mm", at + 1, 20, **{"External id": 10 * k, **shapes}),
            _event("cuda_runtime", "cudaLaunchKernel", at + 5, 3, correlation=10 * k + 1),
            _event("kernel", "gemm", at + 12, 30, 7, correlation=10 * k + 1, stream=7, device=0),
            _event("cuda_runtime", "cudaMemcpyAsync", at + 24, 3, correlation=10 * k + 2),
            _event("gpu_memcpy", "Memcpy HtoD", at + 44, 5, 7, correlation=10 * k + 2, bytes=64,
                   stream=7),
            _event("cuda_runtime", "cudaLaunchKernel", at + 30, 3, correlation=10 * k + 3),
            _event("kernel", "ncclDevKernel_AllReduce_Sum_f32", at + 50, 20, 9, stream=9,
                   correlation=10 * k + 3, **together),
            _event("cuda_runtime", "cudaStreamSynchronize", at + 60, 20, correlation=10 * k + 4),
            _event("cuda_sync", "Stream Sync", at + 60, 20, 7, cuda_sync_kind="Stream Sync",
                   stream=7, correlation=10 * k + 4, wait_on_stream=9),
            _event("cpu_op", "autograd::engine::evaluate_function: X", at + 82, 9, 2),
            {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": at + 9, "args": {
                "Bytes": 64, "Total Allocated": 64, "Device Id": 0, "Device Type": 1, "Addr": 5}},
        ]  # fmt: skip
    events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}})
    said = {"rank": rank, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    return {"distributedInfo": said, "baseTimeNanoseconds": 5, "traceEvents": events,
            "deviceProperties": [{"name": "A GPU"}]}  # fmt: skip


EVENTS = [
    _event("user_annotation", "ProfilerStep#0", 0, 50),
    _event("cpu_op", "aten::mm", 1, 20, **{"Record function id": 5}),
    _event("cpu_op", "aten::add", 25, 20, **{"Record function id": 6}),
    _event("user_annotation", "ProfilerStep#1", 50, 50),
    _event("cpu_op", "aten::mm", 51, 20),
]
GLOO = [
    _event("cpu_op", "aten::mm", 0, 10),
    _event("user_annotation", "gloo:all_reduce", 12, 20, 3, **{"Input Dims": [[4]]}),
    _event("cpu_op", "c10d::allreduce_", 11, 3, **{"Input Dims": [[4]], "Input type": ["float"]}),
    _event("cpu_op", "aten::add", 40, 10),
]
NODE = {"id": 9, "name": "aten::mm", "attrs": [{"name": "rf_id", "type": "uint64", "value": 5}],
        "inputs": {"values": [[1, 2], 3], "shapes": [[4, 8], []],
                   "types": ["Tensor(float)", "Int"]}}  # fmt: skip
FLAT = {"id": 9, "name": "aten::mm", "rf_id": 5, "inputs": [1], "input_shapes": [[4]],
        "input_types": ["Tensor(float)"]}  # fmt: skip


def _chakra() -> list[Any]:
    """Both forms of a small graph of ours, and a node of another program's."""
    import tempfile

    build = Builder("two")
    first = build.op(Kind.COMPUTE, duration=1e-3, name="mm", flop=8, bytes=4)
    copy = build.op(Kind.COPY, after=[first], bytes=64, signature="copy:h2d uint8[64]")
    build.collective([Member(0, 3, (copy,))], bytes=8, signature="collective:all-reduce fp32[2]")
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for form in ("et", "json"):
            (path, _) = chakra.write(build.graph(), folder, form=form)
            found.append(path.read_bytes())
    found.append([json.loads(line) for line in found[1].splitlines()])
    said = {
        "comm_type": {"int64_val": 0},
        "comm_size": {"int64_val": 8},
        "pg_name": {"string_val": "1"},
        "is_cpu_op": {"bool_val": False},
        "num_ops": {"int64_val": 7},
    }
    attr = [{"name": k, **v} for k, v in said.items()]
    foreign = {"id": 1, "type": 7, "data_deps": [0], "duration_micros": 5, "attr": attr}
    found.append([{"version": "0.0.4"}, {"id": 0, "type": 4, "name": "mm"}, foreign])
    return found


def _native() -> dict[str, bytes]:
    """The files of a native trace."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        written = native.write(_trace(Path(folder)), f"{folder}/t")
        return {file.name: file.read_bytes() for file in written.iterdir()}


NATIVE = _native()
NOTHING = System(())
TIMES = b"signature,seconds\ncompute:mm fp32[8x8],1e-6\ncompute:mm fp32[16x16],2e-6\n"
LINES = {"form": FORM, "source": "a test", "families": {"memory": {"launch": 1e-6}}}
RING = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
SYSTEM = {"scheduling-policy": "FIFO", "endpoint-delay": 0, "preferred-dataset-splits": 1,
          "all-reduce-implementation": ["ring"], "local-mem-bw": 1600}  # fmt: skip
CSV = b"step,phase,start_ns,duration_ns,cpu_ns\n0,untraced,0,1000,0\n1,traced,0,2000,0\n"


def targets() -> dict[str, Target]:
    """All of them, by name."""
    whole, tiny = to_dict(parse_yaml(WHOLE)), to_dict(parse_yaml(TINY))
    parts = json.loads(json.dumps(YAML(typ="safe").load(PARTS), default=str))
    profiles = [_all(0), {"traceEvents": EVENTS}, {"traceEvents": GLOO}]
    texts = [json.dumps(p).encode() for p in profiles]
    numbers = [["events", "name", 0, 1], ["events", "ts", 1, 2], ["events", "track", 2, 0]]
    kept = recording_path("foretrace:gloo-2x10gbit").read_bytes()
    settings = {"cluster.nodes": 3, "cluster.node.nic.bandwidth": "400 Gb/s", "run.seed": 2}
    return {
        "scenario": Target([whole, SMALLER.encode()], scenario),
        "setting": Target([settings, b"cluster.nodes=3\nrun.seed=5"], setting),
        "catalog": Target([parts, PARTS.encode()], catalog),
        "profile": Target([*profiles, *texts, gzip.compress(texts[0])], profile),
        "native": Target([json.loads(NATIVE["trace.json"]), NATIVE["events.parquet"]], packed),
        "columns": Target([[n] for n in numbers] + [numbers], columns),
        "chakra": Target(_chakra(), graphs),
        "execution": Target([{"schema": "1", "pid": 1, "nodes": [NODE, FLAT]},
                             json.dumps({"schema": "1", "pid": 1, "nodes": [NODE]}).encode()],
                            inputs),
        "steps": Target([CSV], steps),
        "astra-sim": Target([{"network": RING, "system": SYSTEM}], network),
        "points": Target([b'{"schema": 1, "key": "a", "values": {"makespan": 1.0}}\n'], points),
        "table": Target([TIMES], table),
        "families": Target([LINES], families),
        "recording": Target([gzip.decompress(kept), kept], recording),
        "run": Target([tiny, TINY.encode()], command),
        **{name: Target(*each) for name, each in protocol_targets.TARGETS.items()},
    }  # fmt: skip


REFUSED = ForetraceError
