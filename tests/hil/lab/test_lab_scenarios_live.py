"""The lab's scenario files with the real drivers in them, in both modes.

Part of ``make lab-test``. Each start of a replay is a boot, so these take minutes.
"""

import subprocess
import sys
from pathlib import Path

import foretrace
import pytest
from foretrace.hil.coupling.journal import read_journal
from foretrace.hil.drivers.rdma.rdma_ports import TWO_HOSTS
from foretrace.hil.lab import build_cache, qemu
from foretrace.hil.recording import read
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.accuracy.check_folder import save_check
from foretrace.scenarios.studies.accuracy.device_check import check_devices
from foretrace.scenarios.studies.run.run import study

pytestmark = pytest.mark.hardware("lab")
DOCS = Path(foretrace.__file__).parent / "docs/lab"
AGENTS = """\
agents:
  virtual: {lab: uml ends=5}
  counted: {lab: qemu}
  tiered: {lab: qemu cxl=1}
  host1: {lab: qemu clock=wall wire=livetest host=1}
  host2: {lab: qemu clock=wall wire=livetest host=2}
"""
KEPT = {  # component, recording that stands for it
    "incast": ("fabric", "timetravel-10gbit"),
    "transfer": ("node0.nic0", "icount-verbs"),
    "tiering": ("node0.gpu0", "icount-cxl"),
}
ENOUGH = {"incast": "150 s", "transfer": "200 s", "tiering": "500 s"}  # of measuring, boots too
NEEDED = (
    build_cache.UML_KERNEL,
    build_cache.ROOT,
    qemu.PROGRAM,
    build_cache.GUEST_KERNEL,
    build_cache.GUEST_DISK,
)


@pytest.fixture
def agents(tmp_path, monkeypatch):
    lacking = [part for part in NEEDED if not (build_cache.lab_folder() / part).exists()]
    if lacking:
        pytest.skip(f"THE LAB IS NOT BUILT: it lacks {', '.join(lacking)}; foretrace lab up")
    (tmp_path / "foretrace").mkdir()
    (tmp_path / "foretrace/agents.yaml").write_text(AGENTS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def lab(name, **said):
    return load(DOCS / f"{name}.yaml", set=[f"hil.{k}={v}" for k, v in said.items()])


@pytest.mark.parametrize("name", KEPT)
def test_the_real_driver_drives_simulated_time(name, agents):
    """Beside the recording: the same file, one setting changed."""
    component, recording = KEPT[name]
    live = study(lab(name, mode="coupled")).results["base"]
    swap = f"[{{component: {component}, driver: recorded, recording: foretrace:{recording}}}]"
    remembered = study(lab(name, mode="coupled", swap=swap)).results["base"]
    assert float(live.makespan) == pytest.approx(float(remembered.makespan), rel=0.15)


@pytest.mark.parametrize("name", KEPT)
def test_the_models_are_compared_with_the_real_driver(name, agents, tmp_path):
    scenario = lab(name, time_limit=ENOUGH[name])
    found = check_devices(scenario)
    (one,) = found.results["components"].values()
    assert one["errors"]
    assert one["left_out"]["ops"] == 0
    assert found.outcome in ("pass", "unresolved"), found.results["expect"]
    folder = save_check(scenario, found, tmp_path, "a test")
    page = (folder / "accuracy.html").read_text()
    assert found.outcome != "pass" or "Yes: all 2 expectations hold" in page


COARSE = ["expect=[{that: hil.fabric.time.error.max <= 100000 %}]", "hil.repeat=1",
          "hil.time_limit=400 s", "hil.busy=1000"]  # fmt: skip
RATES = [
    "workload.ops=[{op: 'send:rdma-write depth=8 qps=2', bytes: 4 KiB, from: [0], to: 1}]",
    "hil.swap.0.options.metric=message_rate",
]


@pytest.mark.parametrize("metric", ["completion", "message_rate"])
def test_two_hosts_with_an_agent_each_are_measured_from_a_scenario(metric, agents, tmp_path):
    """Two kernels, a soft-RoCE device each, at one wire; queue pairs, GIDs and keys go through
    their agents and us. Times are an emulator's, so that only their order is judged."""
    said = [*COARSE, f"hil.keep_recording={tmp_path}", *(RATES if metric == "message_rate" else ())]
    found = check_devices(load(DOCS / "pair.yaml", set=said))
    kept = read(tmp_path / "fabric.rec.gz")
    assert found.outcome == "pass", found.results["expect"]
    assert {s.metric for s in kept.samples} == {metric}
    assert {s.clock for s in kept.samples} == {"wall"}
    assert (kept.versions["inside"], kept.versions["way"]) == (TWO_HOSTS, "GID 1 RoCE v2 nic1")
    assert kept.versions["peers"] == "host2 on lab2"
    fastest = {}
    for sample in kept.samples:
        fastest[sample.signature] = min(fastest.get(sample.signature, 1e18), sample.ns.min())
    assert 0 < fastest[min(fastest, key=len)] <= fastest[max(fastest, key=len)]


GUEST_KILLED = """\
import os, select, signal
from pathlib import Path
from foretrace.hil.measuring.answer_log import AnswerLog
from foretrace.scenarios.cli.app import main
def only_child(pid):
    (found,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found)
def append(log, line):
    keep(log, line)
    if "entry" in line or "sample" in line:
        emulator = only_child(only_child(os.getpid()))
        ended = os.pidfd_open(emulator)
        os.kill(emulator, signal.SIGKILL)
        select.select([ended], [], [])
keep, AnswerLog.append = AnswerLog.append, append
main()
"""
ASKED = {"coupled": ("run", "--quiet"), "replay": ("hil", "check", "--quiet")}


@pytest.mark.parametrize("mode", ASKED)
def test_a_machine_that_is_killed_ends_it_with_what_was_measured(mode, agents, tmp_path):
    """With the first answer that counts its emulator is killed: exit code 4, and that is kept."""
    words = [*ASKED[mode], str(DOCS / "incast.yaml"), "--set", f"hil.mode={mode}"]
    done = subprocess.run([sys.executable, "-c", GUEST_KILLED, *words], cwd=tmp_path, text=True,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "died: hil.swap fabric: switch: the agent ended (code -9" in done.stderr
    (kept,) = tmp_path.glob("runs/lab-incast/partial-*")
    assert f"samples measured so far are in {kept.relative_to(tmp_path)}" in done.stderr
    if mode == "coupled":
        assert len(read_journal(kept / "journal.base.jsonl")) == 1
    else:
        assert len(read(kept / "fabric.rec.gz").samples) == 1
