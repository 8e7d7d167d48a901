"""Cost of the first answer from a new clone, by phase, with pip and with uv; and of the run alone.

Needs a package index. The CPU seconds of a phase include all its processes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .._measure import report

AGAIN = 3
ROOT = Path(__file__).parents[2]
PHASES = {  # of a clone: name -> command
    "environment": ["make", "--silent", ".venv/.python"],
    "installation": ["make", "--silent", ".venv/.installed"],
    "first answer (compiles)": [".venv/bin/foretrace", "run", "first", "--quiet"],
    "saved answer": [".venv/bin/foretrace", "run", "first", "--quiet"],
    "--no-cache": [".venv/bin/foretrace", "run", "first", "--quiet", "--no-cache"],
}
TO_FIRST = list(PHASES)[:3]
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


def run_python(words: list[str], home: Path, cache: Path) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds and output of one run of this Python interpreter."""
    return process_times([sys.executable, *words], home, {"NUMBA_CACHE_DIR": str(cache)})


def process_times(
    command: list[str], folder: Path, more: dict[str, str]
) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds and output of one process and its children."""
    env = {**os.environ, **more}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's second run finds the bytecode of the first
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        said = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, said


def from_clone(path: str) -> dict[str, tuple[float, float]]:
    """Wall and CPU seconds of each phase, in a new clone with an empty home folder."""
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder) / "my-clone", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        more = {"HOME": str(home), "PATH": path}
        return {name: process_times(command, clone, more)[:2] for name, command in PHASES.items()}


def without_uv() -> str:
    """The PATH without folders that contain uv."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(one for one in folders if not (Path(one) / "uv").exists())


def report_clone(way: str, path: str, most: float) -> dict[str, object]:
    """Print the phases of one way to install; return CPU seconds to the first answer, and limit.

    Wall seconds are printed only, because they depend on the network.
    """
    phases = from_clone(path)
    for name, (wall, cpu) in phases.items():
        print(f"      {f'{way}: {name}':44} {wall:8.3g} s wall {cpu:8.3g} s CPU")
    first = sum(phases[name][1] for name in TO_FIRST)
    return {
        f"{way}: to the first answer, CPU s": (first, "<=", most),
        f"{way}: saved answer, CPU s": (phases["saved answer"][1], "<=", 1.5),
        f"{way}: --no-cache, CPU s": (phases["--no-cache"][1], "<=", 6.0),
    }


def main() -> None:
    clones = report_clone("pip", without_uv(), 45.0)
    if shutil.which("uv"):
        clones |= report_clone("uv", os.environ["PATH"], 35.0)
    run = ["-m", "foretrace", "run", "first", "--no-cache", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        home, cache = Path(folder), Path(folder) / "compiled"
        first, first_cpu, _ = run_python(run, home, cache)
        again = [run_python(run, home, cache) for _ in range(AGAIN)]
        stages = json.loads(run_python(["-c", STAGES], home, cache)[2])
    for name, seconds in stages.items():
        print(f"      {name:44} {seconds:12.3g} s")
    wall, cpu, _ = min(again)
    report(
        "first_run",
        {
            **clones,
            "run first, nothing compiled, wall s": (first, "<=", 30.0),
            f"run first again, best of {AGAIN}, wall s": (wall, "<=", 4.0),
        },
        cpu_seconds={"first": round(first_cpu, 2), "again": round(cpu, 2)},
        stages=stages,
    )


if __name__ == "__main__":
    main()
