"""A run that is killed, or cannot write, leaves nothing that looks whole."""

import json
import random
import subprocess
import sys
import time

import pytest

SAVER = """\
import sys, time
from pathlib import Path
from foretrace.scenarios.folder import save
from foretrace.scenarios.loader import load
from foretrace.scenarios.study import study

done = study(load("tiny.yaml"))
started = time.monotonic()
save(done, Path(sys.argv[1]), 0.0, "")
print(time.monotonic() - started, flush=True)
while True:
    save(done, Path(sys.argv[1]), 0.0, "")
"""


@pytest.mark.parametrize("instants", [3, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_killed_run_leaves_nothing_that_looks_whole(folder, instants):
    """One that replaces its own run over and over is killed while it does."""
    out = folder / f"kills{instants}"
    draw = random.Random(1)
    unfinished = 0
    for _ in range(instants):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(out)], cwd=folder, stdout=subprocess.PIPE
        ) as process:
            took = float(process.stdout.readline())
            time.sleep(took * draw.uniform(0.0, 4.0))
            process.kill()
        left = list(out.glob("tiny/*"))
        parts = [p for p in left if p.name.startswith(".")]
        assert len(parts) <= 1, "what the killed runs before it left is still there"
        unfinished += len(parts)
        (run,) = set(left) - set(parts)
        json.loads((run / "manifest.json").read_text())
        json.loads((run / "summary.json").read_text())
        assert (run / "report.html").read_text().endswith("</html>\n")
    assert unfinished, "no kill fell into a save"


def test_a_write_that_fails_leaves_nothing(cli, folder, monkeypatch):
    from foretrace.scenarios import folder as run_folder

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_report", full)
    assert cli("run", "tiny.yaml", "--out", "full", "--no-cache")[0] != 0
    assert list((folder / "full" / "tiny").iterdir()) == []
