"""The commands of hardware in the loop: exit codes, tables, files."""

import json
from pathlib import Path

import numpy as np
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import Request, Sample

ODD = Path(__file__).parents[2] / "helpers/devices/odd_driver.py"


def test_drivers_that_work_and_those_that_do_not(cli):
    code, out, _ = cli("drivers", "host", "--json")
    (host,) = json.loads(out)["drivers"]
    assert (code, host["state"], host["clock"]) == (0, "ready", "cpu")
    code, out, _ = cli("drivers", "odd", "host", "--agent", "none")
    assert code == 4
    assert "odd         denied       no such device" in out
    assert "cure: plug one in" in out
    assert "host        ready        core" in out


def test_an_agent_that_nobody_listed_is_exit_code_4(cli):
    code, out, _ = cli("drivers", "host", "--agent", "od", "--json")
    assert code == 4
    assert json.loads(out)["drivers"][0]["reason"] == "no agent named 'od'; did you mean 'odd'?"


def test_a_work_list_is_planned_done_and_described(cli, tmp_path):
    code, out, _ = cli("hil", "plan", "--op", "host:chase uint8[4096]", "--op", "copy:h2d fp32[4]",
                       "--starts", 2, "--repeats", 3)  # fmt: skip
    assert code == 0
    assert "wrote work: 1 ops for host, 1 not supported by it" in out
    assert (tmp_path / "work/foretrace-agent.pyz").stat().st_mode & 0o100
    code, out, error = cli("hil", "record", "work/work.json", "--busy", 1e6, "--json")
    assert code == 0, error
    told = json.loads(out)
    assert (told["ops"], told["starts"], told["ended"]) == (1, 2, "") or told["starts"] > 2
    assert read(tmp_path / told["file"]).driver == "host"
    code, out, _ = cli("hil", "record", "--read", told["file"])
    assert code == 0
    assert "1 ops, " in out


def test_a_plan_with_ops_the_driver_cannot_do_is_refused(cli):
    code, _, error = cli("hil", "plan", "--op", "copy:h2d fp32[4]")
    assert code == 2
    assert "hil plan: host supports none of the 1 ops; it supports copy:h2h, " in error


def test_the_ops_of_a_recorded_trace_are_planned_with_their_strides(cli, tmp_path):
    code, _, error = cli("hil", "plan", "--driver", "torch", "--trace", "foretrace:resnet50")
    assert code == 0, error
    work = json.loads((tmp_path / "work/work.json").read_text())
    strides = work["spec"]["strides"]
    first = "compute:aten::mkldnn_convolution fp32[8x3x64x64] fp32[64x3x7x7]"
    assert strides[first] == 2
    assert first in {r["signature"] for r in work["requests"]}


def test_a_driver_that_dies_while_recording_is_exit_code_4_and_what_it_measured_is_kept(
    cli, tmp_path
):
    asked = (Request("host:idle", 2),)
    limits = {"blocks": 2, "starts": 2, "busy": 1e6}
    work = WorkList("odd", asked, {"fault": "died", "after": 4}, **limits)
    (tmp_path / "work.json").write_text(work.text())
    code, out, error = cli("hil", "record", "work.json", "--agent", "odd")
    assert code == 4
    assert "1 ops, 1 samples" in out
    assert "died: the agent ended (code 7)" in error
    (kept,) = tmp_path.glob("odd-*.rec.gz")
    assert "samples measured so far are in " in error
    assert len(read(kept).samples) == 1


def test_a_recording_that_was_cut_by_its_time_limit_is_exit_code_3(cli, tmp_path):
    work = WorkList("odd", (Request("host:idle", 2),), seconds=1e-9, busy=1e6)
    (tmp_path / "work.json").write_text(work.text())
    code, _, error = cli("hil", "record", "work.json", "--agent", "odd", "--json")
    assert code == 3
    assert "unfinished: time limit of 1e-09 s" in error


def test_a_partial_or_damaged_recording_is_exit_code_2_and_kept(cli, tmp_path):
    samples = (Sample("host:idle", np.ones(3), "cpu"),)
    kept = tmp_path / "x.rec.gz"
    Recording("odd", "odd0", "box", "2026-01-31", {}, samples, ended="died: no").write(kept)
    code, out, error = cli("hil", "record", "--read", kept)
    assert code == 2
    assert "1 ops, 1 samples" in out
    assert "is partial (died: no); record the rest" in error
    kept.write_bytes(kept.read_bytes()[:-20])
    assert cli("hil", "record", "--read", kept)[0] == 2


def test_an_agent_is_written_as_one_file(cli, tmp_path):
    code, out, _ = cli("hil", "agent", "--bundle", "agent.pyz")
    assert code == 0
    assert "python3 agent.pyz --stdio" in out
    assert (tmp_path / "agent.pyz").read_bytes().startswith(b"#!/usr/bin/env python3")
    assert cli("hil", "agent")[0] == 2
    assert cli("hil", "agent", "--listen", "socket")[0] == 2


def test_this_machine_is_discovered(cli, tmp_path):
    code, out, _ = cli("hil", "discover")
    assert code == 0
    assert "cluster:\n  nodes: 1\n" in out
    assert set(json.loads(cli("hil", "discover", "--json")[1])) == {
        "host",
        "devices",
        "nodes",
        "nvlinks",
    }
    assert cli("hil", "discover", "-o", "box.yaml")[0] == 0
    assert (tmp_path / "box.yaml").read_text() == out


SWAPPED = """\
foretrace: 1
name: planned
workload:
  type: transfers
  iterations: {measure: 1}
  ops: [{op: "copy:h2h", bytes: 1 MB, from: [0]}, {op: "copy:h2h", bytes: 2 MB, from: [0, 1]}]
cluster:
  nodes: 2
  node:
    gpu: {count: 1, streams: 1}
    host: {cores: 1}
    nic: {count: 1, bandwidth: 100 Gb/s, latency: 1 us}
    memory: {bandwidth: 4 GB/s, latency: 0 s}
backends: {"node*.gpu0": {use: copy}}
hil:
  repeat: 2
  time_limit: 9 s
  swap: [SWAP]
"""


def test_a_plan_covers_the_devices_that_the_scenario_swaps(cli, tmp_path):
    """Driver, its file, options, context, starts and limit; the ops of that component alone."""
    ops = "options: {after: 7}, ops: {context: cold}"
    swap = f"{{component: node1.gpu0, driver: odd, agent: odd, {ops}}}"
    (tmp_path / "s.yaml").write_text(SWAPPED.replace("SWAP", swap))
    code, out, error = cli("hil", "plan", "s.yaml", "--repeats", 4)
    assert code == 0, error
    work = WorkList.read(tmp_path / "work/work.json")
    assert (work.driver, work.spec, work.starts, work.seconds) == ("odd", {"after": 7}, 2, 9.0)
    assert work.requests == (Request("copy:h2h uint8[2000000]", 4, "cold"),)
    assert "python3 foretrace-agent.pyz --load odd_driver.py --record work.json" in out
    assert (tmp_path / "work/odd_driver.py").read_text() == ODD.read_text()


def test_each_device_of_a_scenario_has_a_work_list(cli, tmp_path):
    two = "{component: node0.gpu0, driver: host}, {component: node1.gpu0, driver: host}"
    (tmp_path / "s.yaml").write_text(SWAPPED.replace("SWAP", two))
    assert cli("hil", "plan", "s.yaml")[0] == 0
    sizes = {n: len(WorkList.read(tmp_path / f"work/{n}.json").requests)
             for n in ("node0.gpu0", "node1.gpu0")}  # fmt: skip
    assert sizes == {"node0.gpu0": 2, "node1.gpu0": 1}


def test_a_driver_of_ones_own_and_its_options_are_planned(cli, tmp_path):
    words = ("--driver", "odd", "--agent", "odd", "--option", "after=3", "--option", "mark=here")
    code, _, error = cli("hil", "plan", *words, "--op", "copy:h2h uint8[64]")
    assert code == 0, error
    work = WorkList.read(tmp_path / "work/work.json")
    assert (work.driver, work.spec) == ("odd", {"after": 3, "mark": "here"})
    code, _, error = cli("hil", "plan", "--option", "core", "--op", "copy:h2h uint8[64]")
    assert (code, "--option 'core': write it like core=1" in error) == (2, True)
