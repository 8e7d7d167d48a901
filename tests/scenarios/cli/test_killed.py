"""A run that is killed, or cannot write, leaves nothing that looks whole."""

import json
import random
import subprocess
import sys
import time

import pytest

STUDIED = """\
import itertools, os, signal, sys, time
from pathlib import Path
from foretrace.scenarios.studies.run.run_folder import save_run
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.run.run import study

done, out = study(load("tiny.yaml")), Path(sys.argv[1])
"""
STEPS = (
    STUDIED
    + """
def mortal(steps):
    "Save in a process that is killed when it is about to change the disk once more than that."
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    def count(event, told):
        nonlocal steps
        writes = event == "open" and isinstance(told[2], int) and told[2] & os.O_ACCMODE
        if writes or event in ("os.mkdir", "os.rename", "ctypes.dlsym", "shutil.rmtree"):
            steps -= 1
            if steps < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    save_run(done, out, 0.0, "")
    os._exit(0)

save_run(done, out, 0.0, "")
for steps in itertools.count():
    status = mortal(steps)
    print(os.waitstatus_to_exitcode(status), flush=True)
    sys.stdin.readline()
    if status == 0:
        break
"""
)
SAVER = (
    STUDIED
    + """
started = time.monotonic()
save_run(done, out, 0.0, "")
print(time.monotonic() - started, flush=True)
while True:
    save_run(done, out, 0.0, "")
"""
)


def left_whole(out):
    """How many unfinished folders are beside the run, which is whole."""
    left = list(out.glob("tiny/*"))
    parts = [p for p in left if p.name.startswith(".")]
    assert len(parts) <= 1, "what the killed runs before it left is still there"
    (run,) = set(left) - set(parts)
    json.loads((run / "manifest.json").read_text())
    json.loads((run / "summary.json").read_text())
    assert (run / "report.html").read_text().endswith("</html>\n")
    return len(parts)


@pytest.mark.nightly
def test_a_run_that_is_killed_at_any_step_leaves_nothing_that_looks_whole(folder):
    """One that replaces its own run is killed before its first write, its second, to its last."""
    program = [sys.executable, "-c", STEPS, str(folder / "steps")]
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    found = []
    with subprocess.Popen(program, cwd=folder, **pipe) as process:
        for line in process.stdout:
            found.append((int(line), left_whole(folder / "steps")))
            print(file=process.stdin, flush=True)
    assert process.returncode == 0
    *killed, last = found
    assert last == (0, 0)
    assert set(killed) == {(-9, 0), (-9, 1)}


@pytest.mark.nightly
def test_a_run_that_is_killed_at_any_time_leaves_nothing_that_looks_whole(folder):
    """One that replaces its own run over and over is killed while it does."""
    out, draw, unfinished = folder / "kills", random.Random(1), 0
    program = folder / "saver.py"  # of a program without a file DuckDB thinks that somebody watches
    program.write_text(SAVER)
    for _ in range(100):
        with subprocess.Popen(
            [sys.executable, program, out], cwd=folder, stdout=subprocess.PIPE
        ) as process:
            took = float(process.stdout.readline())
            time.sleep(took * draw.uniform(0.0, 4.0))
            process.kill()
        unfinished += left_whole(out)
    assert unfinished, "no kill fell into a save"


def test_a_write_that_fails_leaves_nothing(cli, folder, monkeypatch):
    from foretrace.scenarios.studies.run import run_folder

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "run_page", full)
    assert cli("run", "tiny.yaml", "--out", "full", "--no-cache")[0] != 0
    assert list((folder / "full" / "tiny").iterdir()) == []
