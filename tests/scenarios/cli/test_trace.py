"""``foretrace trace``, ``catalog`` and ``validate``."""

import json
from pathlib import Path


def test_a_trace_says_what_it_is_usable_for(cli):
    code, out, _ = cli("trace", "info", "foretrace:gpt")
    assert code == 0
    assert "usable for replay yes" in out


def test_a_trace_is_imported_and_reads_the_same(cli):
    assert cli("trace", "import", "rank0.json", "--out", "native")[0] == 0
    native, kineto = (
        json.loads(cli("trace", "info", name, "--json")[1]) for name in ("native", "rank0.json")
    )
    assert native == kineto


def test_an_imported_trace_gives_the_same_numbers(cli, saved):
    cli("trace", "import", "rank0.json", "--out", "native2")
    runs = saved("runs"), saved("runs", "--set", "workload.trace=native2")
    one, other = (json.loads((r / "summary.json").read_text())["points"] for r in runs)
    assert one["base"]["metrics"] == other["base"]["metrics"]


def test_chakra_files_tell_what_the_trace_told_that_they_were_made_from(cli, tmp_path):
    name, out = "foretrace:ddp-gpt", str(tmp_path / "et")
    assert cli("trace", "export", name, "--format", "chakra", "--out", out)[0] == 0
    files = sorted(map(str, (tmp_path / "et").glob("*.et")))
    graph = json.loads(cli("trace", "info", f"{out}/*.et", "--json")[1])
    assert json.loads(cli("trace", "info", *files, "--json")[1]) == graph
    trace = json.loads(cli("trace", "info", name, "--json")[1])
    same = ("ranks", "world", "steps", "step_times", "collectives", "facts")
    assert {k: graph[k] for k in same} == {k: trace[k] for k in same}
    uses = [{u[0]: u[1] for u in found["uses"]} for found in (graph, trace)]
    assert uses[0] == uses[1]
    again = str(tmp_path / "again")
    assert cli("trace", "export", f"{out}/*.et", "--format", "chakra", "--out", again)[0] == 0
    (written, *_), (first, *_) = sorted((tmp_path / "again").glob("*.et")), files
    assert written.read_bytes() == Path(first).read_bytes()


def test_the_catalog_lists_parts(cli):
    code, out, _ = cli("catalog", "gpu")
    assert code == 0
    assert "a100-sxm4-80g" in out


def test_a_part_is_shown_with_the_source_of_each_value(cli):
    rows = json.loads(cli("catalog", "gpu", "a100-sxm4-80g", "--json")[1])["values"]
    kinds = {row["kind"] for row in rows if row["setting"] != "what"}
    assert kinds <= {"measured", "fitted", "datasheet", "assumed"}
    assert all(row["where"] for row in rows)


def test_validate_misses_a_trace_that_is_not_there(cli):
    code, out, err = cli("validate", "tiny.yaml", "--set", "workload.trace=gone*.json")
    assert (code, out) == (2, "")
    assert "gone*.json'; correct the path" in err


def test_validate_says_ok(cli):
    assert cli("validate", "tiny.yaml") == (0, "ok    tiny.yaml\n", "")
