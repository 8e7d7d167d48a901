"""Every fault of ``docs/hil.md``, done to a run: its exit code and what a user reads."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import foretrace
import numpy as np
import pytest
from by_day import every
from foretrace.hil.agent import protocol
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.coupling.journal import read_journal
from foretrace.hil.driver import DRIVERS
from foretrace.hil.measuring.device_lock import lock_device
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import Request, Sample

ODD = Path(__file__).parents[2] / "helpers/devices/odd_driver.py"
PAGE = Path(foretrace.__file__).parent / "docs/hil.md"
ROW = re.compile(r"\| (.+?) \| (\d) \| `(.+)` \|")
FAULTS = {what: (int(code), said) for what, code, said in ROW.findall(PAGE.read_text())}
SCENARIO = """\
foretrace: 1
name: faulty
workload:
  type: transfers
  iterations: {measure: 1}
  ops: [{op: "copy:h2h", bytes: 1 MB, from: [0, 1], count: 3}]
cluster:
  nodes: 2
  node:
    gpu: {count: 1, streams: 1}
    host: {cores: 1}
    nic: {count: 1, bandwidth: 100 Gb/s, latency: 1 us}
    memory: {bandwidth: 4 GB/s, latency: 0 s}
backends: {"node*.gpu0": {use: copy}}
hil:
  mode: coupled
  time_limit: LIMIT
  repeat: 1
  busy: 1000
  warm_up: 0 s
  swap: [SWAP]
"""
COPY = "copy:h2h uint8[1000000]"
HEADS = {  # what somebody who is no agent of ours says first
    "silent": b"",
    "old": protocol.pack_frame({"protocol": 99, "drivers": []}),
    "large": protocol.HEAD.pack(protocol.MAGIC, protocol.MESSAGE + 1, 0),
}


def on(driver, where=0, **more):
    told = "".join(f", {k}: {v}" for k, v in more.items())
    return f"{{component: node{where}.gpu0, driver: {driver}{told}}}"


def odd(fault):
    """Its first answer is good, the second is not."""
    return on("odd", agent="odd", options=f"{{fault: {fault}, after: 1}}")


def recorded(path, ops=(COPY,), clock="wall", where=0):
    samples = tuple(Sample(op, np.full(3, 1e5), clock) for op in ops)
    Recording("wire", "port0", "box", "2026-01-31T12:00:00Z", {}, samples).write(path)
    return on("recorded", where, recording=path)


@pytest.fixture
def machine(tmp_path):
    """This machine with agents that are none; the user's own driver is not loaded on our side."""
    kept = DRIVERS.pop("odd", None)
    agents = (tmp_path / "foretrace/agents.yaml").read_text()
    for name, head in HEADS.items():
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write({head!r})\n"
                           "sys.stdout.flush()\nsys.stdin.read()\n")  # fmt: skip
        program.chmod(0o755)
        agents += f"  {name}: {{python: {program}, load: [{ODD}]}}\n"
    agents += f"  absent: {{load: [{ODD}], environment: {{ODD_OPEN: missing}}}}\n"
    (tmp_path / "foretrace/agents.yaml").write_text(agents)
    yield tmp_path
    DRIVERS.pop("odd", None)
    if kept is not None:
        DRIVERS["odd"] = kept


def swap(what, folder):
    """The line of a scenario in which it happens."""
    kept = folder / "kept.rec.gz"
    match what:
        case "the recording is truncated":
            line = recorded(kept)
            kept.write_bytes(kept.read_bytes()[:-20])
        case "not a recording":
            line = on("recorded", recording=kept)
            kept.write_text("a letter")
        case "the recording lacks an op":
            line = recorded(kept, ops=("copy:h2h uint8[64]",))
        case "clocks are mixed":
            other = recorded(folder / "other.rec.gz", clock="icount", where=1)
            line = f"{recorded(kept)}, {other}"
        case _:
            line = SWAPS[what]
    return line


SWAPS = {
    "the device is absent": on("odd", agent="absent"),
    "another user has the device": odd("busy"),
    "another run of ours has the device": on("host"),
    "permission denied": odd("denied"),
    "the driver dies": odd("died"),
    "the device hangs": odd("hung"),
    "the agent is silent": on("odd", agent="silent"),
    "another version of the agent": on("odd", agent="old"),
    "a frame is too large": on("odd", agent="large"),
    "an answer is not a number": odd("nan"),
    "an answer is negative": odd("negative"),
    "an answer is absurd": odd("absurd"),
    "an answer without a request": odd("unrequested"),
}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        *((what, ("run", "--quiet")) for what in FAULTS),
        *every(6, [(what, ("hil", "check", "--quiet")) for what in FAULTS]),
    ],
)
def test_a_fault_ends_the_run_or_the_check_and_is_named(what, words, cli, machine, monkeypatch):
    code, said = FAULTS[what]
    if what == "the agent is silent":
        monkeypatch.setattr(RemoteDriver, "patience", 2.0)  # in the place of a minute
    limit = "600 s"
    if what == "the device hangs":
        limit = "2 s"
        for verb in ("open", "describe"):  # however slow this machine is, it hangs only later
            monkeypatch.setattr(RemoteDriver, verb, patiently(getattr(RemoteDriver, verb)))
    text = SCENARIO.replace("SWAP", swap(what, machine)).replace("LIMIT", limit)
    text = text if words[0] == "run" else text.replace("mode: coupled", "mode: replay")
    (machine / "s.yaml").write_text(text)

    with lock_device(f"core{max(os.sched_getaffinity(0))}"):
        got, _, error = cli(*words, "s.yaml")
    assert (got, said in error) == (code, True), error
    assert error.count("\n") <= 3
    assert not list(machine.glob("runs/**/report.html"))


def patiently(ask):
    """A question without the time limit of the scenario."""

    def asked(self, *rest):
        limit, self.limit = self.limit, 600.0
        try:
            return ask(self, *rest)
        finally:
            self.limit = limit

    return asked


def test_every_fault_kind_is_documented():
    assert set(SWAPS) < set(FAULTS)
    assert len(FAULTS) == len(SWAPS) + 4


@pytest.mark.parametrize("words", [("run",), ("hil", "check")])
def test_what_was_measured_before_a_fault_is_kept_and_told(words, cli, machine):
    """Five answers are good, which is a batch or more of a check and some ops of a run."""
    line = on("odd", agent="odd", options="{fault: died, after: 5}")
    text = SCENARIO.replace("SWAP", line).replace("LIMIT", "600 s").replace("count: 3", "count: 99")
    text = text if words[0] == "run" else text.replace("mode: coupled", "mode: replay")
    (machine / "s.yaml").write_text(text)
    code, _, error = cli(*words, "s.yaml")
    assert code == 4, error
    (folder,) = machine.glob("runs/faulty/partial-*")
    assert "samples measured so far are in runs/faulty/" in error
    if words[0] == "run":
        entries = read_journal(folder / "journal.base.jsonl")
        assert {ns for e in entries for ns in e.ns} == {100.0}
    else:
        kept = read(folder / "node0.gpu0.rec.gz")
        assert kept.samples[0].ns[0] == 100.0
        assert kept.ended.startswith("died: the agent ended (code 7)")


def end_waiting(process, mark):
    """Who reads the mark goes on where the process ends before it writes one."""
    process.wait()
    descriptor = os.open(mark, os.O_RDWR | os.O_NONBLOCK)
    os.close(descriptor)


@pytest.mark.parametrize(
    "words", [("run",), pytest.param(("hil", "check"), marks=pytest.mark.nightly)]
)
def test_an_interrupt_ends_a_device_that_hangs(words, cli, machine):
    """Ctrl-C ends it at once, and not after what closing it would take."""
    mark = machine / "hangs"
    line = on("odd", agent="odd", options=f"{{fault: hung, after: 5, mark: {mark}}}")
    text = SCENARIO.replace("SWAP", line).replace("LIMIT", "600 s").replace("count: 3", "count: 99")
    text = text if words[0] == "run" else text.replace("mode: coupled", "mode: replay")
    (machine / "s.yaml").write_text(text)
    code, error = interrupted_when_marked([*words, "s.yaml"], machine, mark)
    assert code == 130, error
    assert "samples measured so far are in runs/faulty/partial-" in error
    assert list(machine.glob("runs/faulty/partial-*/*"))


def test_an_interrupted_work_list_keeps_what_was_measured(cli, machine):
    mark = machine / "hangs"
    spec = {"fault": "hung", "after": 5, "mark": str(mark)}
    work = WorkList("odd", (Request(COPY, 5),), spec, busy=1000.0)
    (machine / "work.json").write_text(work.text())
    words = ["hil", "record", "work.json", "--agent", "odd"]
    code, error = interrupted_when_marked(words, machine, mark)
    assert code == 130, error
    (kept,) = map(read, machine.glob("odd-*.rec.gz"))
    assert (kept.samples[0].ns[0], kept.ended) == (100.0, "interrupted")


def interrupted_when_marked(words, folder, mark):
    """Exit code and stderr of a command that is interrupted once its device hangs."""
    os.mkfifo(mark)
    process = subprocess.Popen(
        [sys.executable, "-m", "foretrace", *words], cwd=folder, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder)},
    )  # fmt: skip
    Thread(target=end_waiting, args=(process, mark), daemon=True).start()
    mark.read_text()  # it hangs from here on
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=15)  # of the twenty that closing was given
    return process.returncode, error
