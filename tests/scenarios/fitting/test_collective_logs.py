"""Logs of collectives as they are kept: several tests in a file, tags, JSON, rows that are cut."""

import json
import random

import pytest
from foretrace.scenarios.studies.fitting.collective_logs import collective_logs
from foretrace.scenarios.studies.fitting.log_json import json_sections
from foretrace.scenarios.studies.fitting.log_sections import log_sections
from foretrace.sim.errors import ScenarioError

SIZES = [2**k for k in range(8, 34)]
COLUMNS = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
DEVICE = "#  Rank {0:2d} Group  0 Pid  1000 on  node-{1} device  {0} [0x00] NVIDIA H100 80GB HBM3\n"
UNNAMED = "# nThread 1 nGpus 8 minBytes 256 maxBytes 8589934592 step: 2(factor) warmup iters: 5\n"


def seconds(size, factor=1.0):
    """10 us, and 200 GB/s."""
    return factor * (1e-5 + size / 200e9)


def row(size, factor=1.0, wrong="0", redop="     sum      -1"):
    us = seconds(size, factor) * 1e6
    rates = f"{us:9.2f} {size / us / 1e3:7.2f} {1.75 * size / us / 1e3:7.2f} {wrong:>6}"
    return f"{size:12d} {size // 4:12d}     float{redop} {rates} {rates}\n"


def devices(nodes=1):
    return "# Using devices\n" + "".join(DEVICE.format(r, r * nodes // 8) for r in range(8))


def log(name="all_reduce", factor=1.0, nodes=1):
    start = f"# Collective test starting: {name}_perf\n" if name else ""
    end = (
        f"# Out of bounds values : 0 OK\n# Collective test concluded: {name}_perf\n" if name else ""
    )
    rows = "".join(row(s, factor) for s in SIZES)
    return f"{start}{UNNAMED}#\n{devices(nodes)}#\n{COLUMNS}{rows}{end}"


def read(tmp_path, *texts, **asked):
    files = []
    for number, text in enumerate(texts):
        files.append(str(tmp_path / f"x{number}.log"))
        (tmp_path / f"x{number}.log").write_text(text)
    return collective_logs(files, **asked)


def check(logs, name, factor=1.0, nodes=1):
    rows = [r for r in logs.rows if r.collective == name]
    assert [r.size for r in rows] == SIZES
    assert {(r.ranks, r.nodes) for r in rows} == {(8, nodes)}
    assert [r.seconds for r in rows] == pytest.approx([seconds(s, factor) for s in SIZES], abs=1e-8)


TWO = {
    "two tests": log() + log("all_gather", 2),
    "two tests, the program named only": (
        f"+ mpirun ./all_reduce_perf -b 256\n{log('')}+ ./all_gather_perf -b 256\n{log('', 2)}"
    ),
    "two tests, one list of devices": (
        log() + "# Collective test starting: all_gather_perf\n" + devices() + COLUMNS
        + "".join(row(s, 2) for s in SIZES)
    ),
    "two tests with output of another program between": (
        log() + "srun: job 7 queued\nDone.\n\n" + log("all_gather", 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TWO)
def test_two_tests_of_one_output_are_never_mixed(tmp_path, case):
    logs = read(tmp_path, TWO[case])
    check(logs, "all-reduce")
    check(logs, "all-gather", 2)
    assert logs.notes == ()


def test_the_machines_of_two_tests_stay_apart(tmp_path):
    logs = read(tmp_path, log(nodes=1) + log("reduce_scatter", 2, nodes=2))
    check(logs, "all-reduce", nodes=1)
    check(logs, "reduce-scatter", 2, nodes=2)


@pytest.mark.parametrize(
    "tag",
    ["[1,0]<stdout>:", "[1,12]<stdout>: ", "0: ", "[rank3]: ", "<stdout>:", "2026-11-29 01:02:03 ",
     "2026-11-29T01:02:03.123Z ", "[2026-11-29 01:02:03,123] ", "2026-11-29T01:02:03+00:00 0: "],
)  # fmt: skip
def test_tags_and_timestamps_are_no_part_of_a_line(tmp_path, tag):
    logs = read(tmp_path, "".join(tag + line for line in log().splitlines(keepends=True)))
    check(logs, "all-reduce")
    assert logs.notes == ()


ENDS = {
    "a timestamp": lambda text: text.replace("      0\n", "      0  2026-11-29 01:02:03\n"),
    "no in-place columns": lambda text: "".join(
        " ".join(x.split()[:9]) + "\n" if x[:2] == "  " else x for x in text.splitlines(True)
    ),
    "no root": lambda text: text.replace("     sum      -1", "     sum"),
    "no operation": lambda text: text.replace("     sum      -1", ""),
    "a type of another name": lambda text: text.replace("     float", "  fp8_e4m3"),
    "unknown results": lambda text: text.replace("      0\n", "    N/A\n"),
}


@pytest.mark.parametrize("case", ENDS)
def test_columns_of_all_versions_are_read(tmp_path, case):
    check(read(tmp_path, ENDS[case](log())), "all-reduce")


def test_an_error_of_older_versions_is_no_count_of_wrong_results(tmp_path):
    text = log().replace("#wrong", " error").replace("      0 ", "  2e-07 ")
    logs = read(tmp_path, text)
    check(logs, "all-reduce")
    assert logs.notes == ()


INFO = "node-a:1000:1010 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"
CUTS = {
    "in the time": lambda line: line[:62] + INFO + "\n" + line[62:],
    "behind the type": lambda line: line[:36] + INFO + "\n" + line[36:],
    "at the end": lambda line: line[:90] + "\n",
    "a digit lost": lambda line: line.replace("    10.01 ", "    1.01 ", 1),
    "two rows in one": lambda line: line.rstrip("\n") + " " + line,
}


@pytest.mark.parametrize("case", CUTS)
def test_a_row_that_is_cut_is_left_out_and_counted(tmp_path, case):
    whole = row(1024)
    text = log()
    assert whole in text
    logs = read(tmp_path, text.replace(whole, CUTS[case](whole)))
    assert [r.size for r in logs.rows] == [s for s in SIZES if s != 1024]
    assert logs.notes == ("1 row left out: not complete, such as cut by other output",)


def test_rows_with_wrong_results_are_left_out_and_counted(tmp_path):
    logs = read(tmp_path, log().replace(row(1024), row(1024, wrong="17")))
    assert len(logs.rows) == 25
    assert logs.notes == ("1 row left out: wrong results (#wrong)",)


MIXED = (
    r"x0.log:43: its all-reduce of 8 ranks on 1 machines takes 2.5 times as long as in .*x0.log:1, "
    "which is no noise but another setting; fit only one of the two"
)


def test_times_of_two_kinds_are_two_populations_and_not_noise(tmp_path):
    with pytest.raises(ScenarioError, match=MIXED):
        read(tmp_path, log() + log(factor=2.5))
    with pytest.raises(ScenarioError, match=r"x1.log: its all-reduce .* takes 0.4 times"):
        read(tmp_path, log(factor=2.5), log())
    check(read(tmp_path, log(factor=2.5)), "all-reduce", 2.5)
    assert len(read(tmp_path, log() + log(factor=1.3)).rows) == 52


def test_single_sizes_that_differ_twofold_are_noted(tmp_path):
    slow = log().replace(row(1024), row(1024, 3))
    logs = read(tmp_path, log() + slow)
    assert logs.notes == ("1 size with times that differ twofold or more",)


def table(size):
    us = seconds(size) * 1e6
    return {"time": us, "alg_bw": size / us / 1e3, "bus_bw": 1, "nwrong": 0}


def rccl(size, place):
    us = seconds(size) * 1e6
    return {"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 8, "ranksPerNode": 8,
            "size": size, "type": "float", "redop": "sum", "inPlace": place,
            "time": f"{us * (1 + place):f}",
            "algBw": "1", "busBw": "1", "wrong": "0"}  # fmt: skip


DEVICES = [{"rank": r, "hostname": "a", "device": r} for r in range(8)]
NCCL = {"version": 4, "args": ["./build/all_reduce_perf", "-J", "x"],
        "config": {"devices": DEVICES},
        "results": [{"size": s, "out_of_place": table(s)} for s in SIZES]}  # fmt: skip
RCCL = [rccl(s, place) for s in SIZES for place in (0, 1)]
BY_SIZE = {"identifier": "x", "benchmark": [{str(s): {"oop_time": table(s)["time"],
           "oop_error": 0.0} for s in SIZES}]}  # fmt: skip
DOCUMENTS = {
    "nccl-tests": (json.dumps(NCCL), {}),
    "rccl-tests": (json.dumps(RCCL), {}),
    "rccl-tests, a record a line": ("\n".join(map(json.dumps, RCCL)), {}),
    "by size": (json.dumps(BY_SIZE), {"collective": "all-reduce", "ranks": 8}),
    "a byte order mark": ("\ufeff" + json.dumps(NCCL), {}),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_json_of_both_programs_is_read_out_of_place(tmp_path, case):
    text, asked = DOCUMENTS[case]
    check(read(tmp_path, text, **asked), "all-reduce")


def test_json_that_lacks_its_collective_is_refused_with_the_cure(tmp_path):
    with pytest.raises(ScenarioError, match=r"x0.log: does not name its collective; give --coll"):
        read(tmp_path, json.dumps(BY_SIZE))
    with pytest.raises(ScenarioError, match=r"x0.log: does not say how many ranks took part"):
        read(tmp_path, json.dumps(BY_SIZE), collective="all-reduce")


def test_rows_of_json_that_are_no_measurement_are_counted(tmp_path):
    bad = [{"size": 1, "out_of_place": {"time": "N/A"}}, {"size": 2}, {},
           {"size": 4, "out_of_place": {"time": 5, "nwrong": 3}}]  # fmt: skip
    logs = read(tmp_path, json.dumps({**NCCL, "results": [*bad, *NCCL["results"]]}))
    check(logs, "all-reduce")
    assert logs.notes == ("3 rows left out: not complete, such as cut by other output",
                          "1 row left out: wrong results (#wrong)")  # fmt: skip


def test_any_damage_gives_rows_or_a_refusal(tmp_path):
    """Never another exception, and never a row that the log does not have."""
    refusals: set[str] = set()
    draw, texts = (
        random.Random(2),
        [log() + log("all_gather", 2), json.dumps(NCCL), json.dumps(RCCL)],
    )
    right = {(s, round(seconds(s, f) * 1e9)) for s in SIZES for f in (1, 2)}
    for number in range(300):
        text = bytearray(texts[number % 3].encode())
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text))
            text[at : at + draw.choice((0, 1, 5, 300))] = draw.choice(
                (b"", b"\n", b"}", b"null", draw.randbytes(3), INFO.encode())
            )
        told = text.decode("utf-8", "replace")
        json_sections(told)
        rows = [r for s in log_sections(told) for r in s.rows]
        wrong = [r for r in rows if not any(r[0] == s and abs(r[1] * 1e9 - t) <= 0.05 * t
                                            for s, t in right)]  # fmt: skip
        assert len(wrong) <= 1, wrong
        try:
            read(tmp_path, told)
        except ScenarioError as error:
            refusals.add(str(error))
    assert all(";" in told for told in refusals)
