"""The medium beside SimGrid on the same flows and routes: ratio of CPU time, difference of ends.

Usage: python benchmarks/simgrid.py [k] [kind ...]

Needs SimGrid and a C++ compiler (Debian: apt-get install g++ libsimgrid-dev).  SimGrid runs its
plain max-min model (CM02 without cross traffic, no latency); its routes are used for both.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _fattree import PER_SECOND, flows
from _measure import report
from flows import Case, best

CONFIG = ("--cfg=network/model:CM02", "--cfg=network/crosstraffic:0")
# figure: least ratio of CPU seconds, SimGrid to ours
GOALS = {"ring": 8.0, "perm": 8.0, "incast": 8.0, "rand4": 200.0, "a2a16": 8.0, "incastall": 20.0}


def build(folder: Path) -> Path:
    """Compile the peer."""
    compiler = shutil.which("g++")
    if compiler is None:
        sys.exit("no g++ here; install g++ and libsimgrid-dev")
    source, program = Path(__file__).with_name("simgrid_flows.cpp"), folder / "simgrid_flows"
    command = [compiler, "-O2", "-std=c++17", str(source), "-lsimgrid", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def peer(program: Path, folder: Path, k: int, kind: str) -> tuple[float, Case, np.ndarray]:
    """SimGrid's CPU seconds, the same case for us on its routes, and its ends in seconds."""
    table = np.column_stack(flows(kind, k)).astype(np.int64)
    problem, routes, ends = (folder / name for name in ("problem", "routes", "ends"))
    problem.write_bytes(np.int64(len(table)).tobytes() + table.tobytes())
    command = [str(program), str(k), str(problem), str(routes), str(ends), *CONFIG]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    words = np.fromfile(routes, np.int32)
    indptr, links, at = [0], [], 0
    for _ in range(len(table)):
        links.append(words[at + 1 : at + 1 + words[at]])
        at += 1 + int(words[at])
        indptr.append(indptr[-1] + len(links[-1]))
    case = Case.of(np.array(indptr), np.concatenate(links), table[:, 2])
    return float(done.stdout.split()[-1]), case, np.fromfile(ends)


def main(k: int = 16, *kinds: str) -> None:
    goals: dict[str, tuple[float, str, float]] = {}
    facts: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        for kind in kinds or GOALS:
            theirs, case, ends = peer(program, folder, k, kind)
            case.once()
            ours = best(case.once)
            worst = float(np.max(np.abs(case.end / PER_SECOND - ends) / ends))
            facts[kind] = {"flows": len(ends), "simgrid_seconds": theirs, "seconds": ours}
            goals[f"{kind}: SimGrid's CPU seconds to ours"] = (theirs / ours, ">=", GOALS[kind])
            goals[f"{kind}: largest relative difference"] = (worst, "<=", 2e-7)
    report("simgrid", goals, hosts=k**3 // 4, **facts)


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))  # type: ignore[arg-type]
