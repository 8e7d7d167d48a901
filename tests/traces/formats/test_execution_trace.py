"""An execution trace tells the shapes that a profiler was not asked to record."""

import gzip
import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.formats import kineto
from foretrace.traces.formats.execution_trace import add_execution_traces
from foretrace.traces.infer.events.operands import parse_operands

INPUTS = {
    "values": [[13, 14, 0, 32, 4, "cpu"], [7, 8, 0, 8, 4, "cpu"], 1],
    "shapes": [[32, 8], [8], []],
    "types": ["Tensor(float)", "Tensor(c10::Half)", "Int"],
}
NODE = {"id": 9, "name": "aten::addmm", "inputs": INPUTS, "attrs": [{"name": "rf_id", "value": 5}]}
OLD = {
    "id": 9,
    "name": "aten::addmm",
    "rf_id": 5,
    "inputs": INPUTS["values"],
    "input_shapes": INPUTS["shapes"],
    "input_types": INPUTS["types"],
}


def document(*nodes, pid=1):
    return {"schema": "1.1.1-chakra.0.0.4", "pid": pid, "nodes": list(nodes)}


@pytest.fixture
def trace(script, tmp_path):
    made = script()
    made.step(1, 0, 100)
    made.op("aten::addmm", 10, 20, **{"Record function id": 5})
    recorded = {"Record function id": 6, "Input Dims": [[3]], "Input type": ["float"]}
    made.op("aten::mul", 40, 20, **recorded)
    return made.read(tmp_path)


@pytest.fixture
def written(tmp_path):
    def put(content, name="et.json"):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        return tmp_path / name

    return put


@pytest.mark.parametrize("node", [NODE, OLD], ids=["grouped", "flat"])
@pytest.mark.parametrize("name", ["et.json", "et.json.gz"])
def test_shapes_and_types_are_filled_in(node, name, trace, written):
    joined = add_execution_traces(trace, [written(document(node), name)])
    told = [
        parse_operands(*pair)
        for pair in zip(*(joined.text(c) for c in ("shapes", "dtypes")), strict=True)
    ]
    assert [list(map(str, one)) for one in told] == [[], ["fp32[32x8]", "fp16[8]"], ["fp32[3]"]]
    assert json.loads(joined.text("scalars")[1]) == ["", "", "1"]


def test_what_was_recorded_stays(trace, written):
    other = {**NODE, "name": "aten::mul", "attrs": [{"name": "rf_id", "value": 6}]}
    joined = add_execution_traces(trace, [written(document(other))])
    assert joined.text("shapes")[2] == "[[3]]"


def test_native_form_keeps_the_number(trace, tmp_path):
    from foretrace.traces.formats import native

    back = native.read(native.write(trace, tmp_path / "t"))
    assert back.events["function"].tolist() == [-1, 5, 6]


def test_a_trace_of_schema_1_is_read(trace, tmp_path):
    """Written before there was the column: same tables without it."""
    import duckdb
    from foretrace.traces.formats import native

    folder = native.write(trace, tmp_path / "t")
    events = folder / "events.parquet"
    duckdb.sql(f"SELECT * EXCLUDE (function) FROM '{events}'").write_parquet(f"{events}.old")
    (folder / "events.parquet.old").replace(events)
    manifest = json.loads((folder / "trace.json").read_text()) | {"schema": 1}
    (folder / "trace.json").write_text(json.dumps(manifest))
    old = native.read(folder)
    assert old.events["function"].tolist() == [-1, -1, -1]
    assert old.text("name").tolist() == trace.text("name").tolist()


def test_an_execution_trace_alone_is_refused_with_the_cure(written):
    with pytest.raises(TraceError, match=r"is an execution trace, which has no times; give the"):
        kineto.read(written(document(NODE)))
