"""What `foretrace run first` costs with nothing compiled, and again; and where the time goes."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _measure import report

AGAIN = 3
STAGES = """
import json, time
began, laps = time.perf_counter(), {}
def lap(name):
    global began
    laps[name] = round(time.perf_counter() - began, 3)
    began = time.perf_counter()
from pathlib import Path
from foretrace.scenarios.cli import app
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.run.run_folder import save_run
from foretrace.scenarios.studies.variants.variants import build_variants
lap("imports")
scenario = load("first")
lap("read the scenario")
base = build_variants(scenario)[0]
lap("read the trace, infer and resize the graph")
base.run()
lap("load the kernels, run once")
done = study(scenario)
lap("all runs, what they say (graph built again)")
save_run(done, Path("stages"), 0.0, "")
lap("write tables, timeline, report")
print(json.dumps(laps))
"""


def child(words: list[str], home: Path, cache: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of one process, and what it said."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's second run finds the bytecode of the first
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *words], cwd=home, env=env, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        said = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{words} ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, said


def main() -> None:
    run = ["-m", "foretrace", "run", "first", "--no-cache", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        home, cache = Path(folder), Path(folder) / "compiled"
        first, first_cpu, _ = child(run, home, cache)
        again = [child(run, home, cache) for _ in range(AGAIN)]
        stages = json.loads(child(["-c", STAGES], home, cache)[2])
    for name, seconds in stages.items():
        print(f"      {name:44} {seconds:12.3g} s")
    wall, cpu, _ = min(again)
    report(
        "first_run",
        {
            "run first, nothing compiled, wall s": (first, "<=", 30.0),
            f"run first again, best of {AGAIN}, wall s": (wall, "<=", 4.0),
        },
        cpu_seconds={"first": round(first_cpu, 2), "again": round(cpu, 2)},
        stages=stages,
    )


if __name__ == "__main__":
    main()
