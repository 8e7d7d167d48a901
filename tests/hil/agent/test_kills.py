"""Kills of agent, guest and parent, at each step of what they say to each other.

Nothing hangs, exit codes are as the page says, and what was measured is there afterwards: at once,
or where the parent itself was killed, when the same is run again.
"""

import fcntl
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from by_day import every, only
from foretrace.hil.coupling.journal import read_journal
from foretrace.hil.driver import DRIVERS
from foretrace.hil.measuring.answer_log import AnswerLog, abandoned_logs
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import read
from foretrace.hil.sample import Request

KILLING = Path(__file__).parents[2] / "helpers/devices/killing_driver.py"
SCENARIO = """\
foretrace: 1
name: killed
workload:
  type: transfers
  iterations: {measure: 1}
  ops: [{op: "copy:h2h", bytes: 1 MB, from: [0], count: 4}]
cluster:
  nodes: 1
  node:
    gpu: {count: 1, streams: 1}
    host: {cores: 1}
    memory: {bandwidth: 4 GB/s, latency: 0 s}
backends: {"node*.gpu0": {use: copy}}
hil:
  mode: MODE
  repeat: 1
  busy: 1000
  warm_up: 0 s
  swap: [{component: node0.gpu0, driver: killing, agent: killing}]
"""
COMMANDS = {"coupled": ("run", "--quiet"), "replay": ("hil", "check", "--quiet")}
BEFORE = {"coupled": 3, "replay": 4}  # frames before the first answer: hello, probe, open, describe
WARM = {"coupled": 0, "replay": 3}  # answers that do not count: those of warming up
ANSWERS = {"coupled": 4, "replay": 6}  # all that are asked for, before closing
WHOLE = {"coupled": 4, "replay": 6}  # answers that count, of the two agents of a whole check
CLOSED = {mode: BEFORE[mode] + ANSWERS[mode] + 1 for mode in COMMANDS}
KILLED = """\
import os, signal, sys
left = [NUMBER]
def seen(event, args):
    if event == "os.rename" and RUNS in str(args[0]):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGNAL)
sys.addaudithook(seen)
from foretrace.scenarios.cli.app import main
main()
"""


@pytest.fixture
def killed(cli, tmp_path, monkeypatch):
    """Run a command in which somebody is killed: its exit code and stderr.

    An agent or a guest is killed under a command in this process, a parent is a process.
    """
    kept = DRIVERS.pop("killing", None)
    guest = tmp_path / "guest"
    guest.write_text(f'#!/bin/sh\n{sys.executable} "$@"\nexit $?\n')
    guest.chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KILL_PIDS", str(tmp_path / "pids"))

    def run(mode, who="", when="before", number=0):
        agent = {"load": f"[{KILLING}]"}
        if who == "guest":
            agent["python"] = str(guest)
        if who in ("agent", "guest", "parent"):
            whom = "agent" if who == "agent" else "parent"
            agent["environment"] = f'{{KILL: "{when} {number} {whom}"}}'
        told = ", ".join(f"{k}: {v}" for k, v in agent.items())
        (tmp_path / "foretrace/agents.yaml").write_text(f"agents:\n  killing: {{{told}}}\n")
        (tmp_path / "s.yaml").write_text(SCENARIO.replace("MODE", mode))
        words = [*COMMANDS[mode], "s.yaml"]
        if who in ("", "agent", "guest"):
            code, _, error = cli(*words)
            return code, error
        program = KILLED.replace("NUMBER", str(number if who == "writing" else 0))
        program = program.replace("RUNS", repr("runs"))
        program = program.replace("SIGNAL", when if who == "writing" else "SIGKILL")
        done = subprocess.run([sys.executable, "-c", program, *words], cwd=tmp_path, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)  # fmt: skip
        return done.returncode, done.stderr

    run.folder = tmp_path
    yield run
    DRIVERS.pop("killing", None)
    if kept is not None:
        DRIVERS["killing"] = kept


def kept_answers(folder, mode):
    """How many answers are kept of what ended early."""
    partial = list(folder.glob("runs/killed/partial-*"))
    if not partial:
        return 0
    if mode == "coupled":
        return len(read_journal(partial[0] / "journal.base.jsonl"))
    return len(read(partial[0] / "node0.gpu0.rec.gz").samples)


def counted(mode, sent):
    """Answers that count among so many whole frames."""
    return max(0, min(sent - BEFORE[mode], ANSWERS[mode]) - WARM[mode])


def no_agent_is_left(folder):
    """Wait until each agent that was started has ended."""
    for pid in map(int, (folder / "pids").read_text().split()):
        try:
            ended = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with open(ended) as file:
            select.select([file], [], [])


def try_a_kill_of_the_other_side(killed, mode, who, when, number):
    code, error = killed(mode, who, when, number)
    assert code == 4, error
    assert "died: hil.swap node0.gpu0: killing: the agent ended (code -9)" in error
    sent = number if when == "after" else number - 1
    assert kept_answers(killed.folder, mode) == counted(mode, sent), error
    no_agent_is_left(killed.folder)


def try_a_kill_of_the_parent(killed, mode, number):
    """Before it sends a frame an agent kills who waits for it, so all before was received."""
    code, error = killed(mode, "parent", "before", number)
    assert code == -9, error
    no_agent_is_left(killed.folder)
    code, error = killed(mode)
    assert code == 0, error
    count = counted(mode, number - 1)
    assert ("samples of the earlier, killed run are in " in error) == bool(count)
    assert kept_answers(killed.folder, mode) == count
    assert not list(killed.folder.glob("runs/killed/.answers*"))


STEPS = ("hello", "open", "first answer", "an answer", "last answer", "close")


def frame(mode, step):
    """Number of the frame that an agent sends at a step."""
    first = BEFORE[mode] + 1
    return {"hello": 1, "open": BEFORE[mode] - 1, "first answer": first, "an answer": first + 2,
            "last answer": CLOSED[mode] - 1, "close": CLOSED[mode]}[step]  # fmt: skip


MODES = [*COMMANDS, *COMMANDS, *reversed(COMMANDS)]  # by day the one, by night the other
KILLS = [
    ("hello", "half", "agent"), ("open", "before", "guest"), ("first answer", "half", "agent"),
    ("an answer", "after", "guest"), ("last answer", "half", "guest"), ("close", "before", "agent"),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "step", "when", "who"), only(
    [(mode, *kill) for mode, kill in zip(MODES, KILLS, strict=True)],
    [(mode, *kill) for mode in COMMANDS for kill in KILLS],
))  # fmt: skip
def test_an_agent_or_a_guest_that_is_killed_ends_it_with_what_was_measured(
    killed, mode, step, when, who
):
    try_a_kill_of_the_other_side(killed, mode, who, when, frame(mode, step))


@pytest.mark.parametrize("mode", only(["replay"], COMMANDS))  # coupled: one that saves, below
@pytest.mark.parametrize("step", only(["an answer"], ["hello", "an answer", "close"]))
def test_what_was_measured_before_the_parent_was_killed_is_kept_by_the_next_one(killed, mode, step):
    try_a_kill_of_the_parent(killed, mode, frame(mode, step))


@pytest.mark.parametrize(("mode", "how"), every(3, [
    ("coupled", "SIGKILL"), ("replay", "SIGKILL"), ("replay", "SIGTERM"),
]))  # fmt: skip
def test_a_parent_that_is_killed_while_it_saves_loses_nothing(killed, mode, how):
    """Where what it has written is to take its place."""
    code, error = killed(mode, "writing", how, number=1)
    assert code == -getattr(signal, how), error
    no_agent_is_left(killed.folder)
    code, error = killed(mode)
    assert code == 0, error
    assert kept_answers(killed.folder, mode) == WHOLE[mode]


def test_a_check_that_is_interrupted_while_it_saves_loses_nothing(killed):
    code, error = killed("replay", "writing", "SIGINT", number=1)
    assert code == 130, error
    assert kept_answers(killed.folder, "replay") == WHOLE["replay"]
    assert not list(killed.folder.glob("runs/killed/.answers*"))


RECORDERS = {
    "here": ("foretrace", "hil", "record", "work.json", "--agent", "killing"),
    "offline": ("foretrace.hil.agent", "--load", str(KILLING), "--record", "work.json"),
}


@pytest.mark.parametrize("where", RECORDERS)
def test_what_a_work_list_had_measured_before_it_was_killed_is_kept_by_the_next_one(
    killed, tmp_path, where
):
    asked = (Request("copy:h2h uint8[1000000]", 1),)
    work = WorkList("killing", asked, starts=1, most_starts=1, blocks=3, busy=1e3)
    (tmp_path / "work.json").write_text(work.text())
    (tmp_path / "foretrace/agents.yaml").write_text(f"agents: {{killing: {{load: [{KILLING}]}}}}\n")
    second = BEFORE["replay"] + WARM["replay"] + 2  # frame of the second batch that counts
    for kill, ends in ((f"before {second} parent", -9), ("", 0)):
        done = subprocess.run([sys.executable, "-m", *RECORDERS[where]], cwd=tmp_path, text=True,
                              capture_output=True, env={**os.environ, "KILL": kill})  # fmt: skip
        assert done.returncode == ends, done.stderr
        no_agent_is_left(tmp_path)
    assert "samples that a killed process had measured are in killing-" in done.stderr
    kept = sorted((read(path) for path in tmp_path.glob("*.rec.gz")), key=lambda r: len(r.samples))
    assert [(len(r.samples), r.ended) for r in kept] == [(1, "killed"), (3, "")]
    assert not list(tmp_path.glob(".answers*"))


def test_a_log_that_another_process_removes_as_abandoned_is_started_again(tmp_path, monkeypatch):
    """Between the instants at which it is there and at which it is locked."""
    lock, log = fcntl.flock, AnswerLog(tmp_path, "key")

    def late(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        assert [p.read_bytes() for p in abandoned_logs(tmp_path, "key")] == [b""]
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    log.append({"variant": "base"})
    assert log.path.read_text() == '{"variant": "base"}\n'
    assert not list(abandoned_logs(tmp_path, "key"))
    log.remove()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_kills_at_random_instants(killed, seed):
    draw = random.Random(seed)
    mode, who = draw.choice(list(COMMANDS)), draw.choice(("agent", "guest", "parent"))
    number = draw.randint(1, CLOSED[mode])
    if who == "parent":
        try_a_kill_of_the_parent(killed, mode, number)
    else:
        when = draw.choice(("before", "half", "after"))
        if (when, number) == ("after", CLOSED[mode]):
            when = "half"  # after the last frame nobody waits for anything
        try_a_kill_of_the_other_side(killed, mode, who, when, number)
