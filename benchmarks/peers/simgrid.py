"""The max-min medium compared with SimGrid on the same flows: CPU time ratio and end differences.

Usage: python -m foretrace.benchmarks.peers.simgrid [k] [kind ...]

k = 16 means 1,024 hosts, k = 32 means 8,192. Needs SimGrid and a C++ compiler (Debian: apt-get
install g++ libsimgrid-dev). SimGrid runs its plain max-min model (CM02 without cross traffic, no
latency), and its routes are used for both. It is stopped once it has taken longer than the goal
allows: then the goal is met, and the ends are not compared.
"""

import math
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .._measure import report
from ..network._fattree import PER_SECOND, flows
from ..network.flows import Case, best

CONFIG = ("--cfg=network/model:CM02", "--cfg=network/crosstraffic:0")
# figure: least ratio of CPU seconds, SimGrid to ours
GOALS = {"ring": 40, "perm": 15, "incast": 12, "rand4": 400, "a2a16": 60, "incastall": 100}
BESIDE = 10  # CPU seconds for what SimGrid does beside running: its machine and routes


def build(folder: Path) -> Path:
    """Compile the SimGrid program."""
    compiler = shutil.which("g++")
    if compiler is None:
        sys.exit("no g++ here; install g++ and libsimgrid-dev")
    source, program = Path(__file__).with_name("simgrid_flows.cpp"), folder / "simgrid_flows"
    command = [compiler, "-O2", "-std=c++17", str(source), "-lsimgrid", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def stop_at(seconds: float) -> Callable[[], None]:
    """Function that limits a process to the given CPU seconds."""
    most = math.ceil(seconds)
    return lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most))


class Peer:
    """The SimGrid program, and the files for its input and output."""

    def __init__(self, folder: Path, k: int, kind: str):
        self.folder, self.k = folder, k
        self.program = folder / "simgrid_flows"
        self.table = np.column_stack(flows(kind, k)).astype(np.int64)

    def run(self, most: float) -> float:
        """CPU seconds of the run; infinite if it was stopped at the limit."""
        files = [self.folder / name for name in ("problem", "routes", "ends")]
        files[0].write_bytes(np.int64(len(self.table)).tobytes() + self.table.tobytes())
        command = [self.program, str(self.k), *files, *CONFIG]
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=stop_at(most + BESIDE)
        )
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return math.inf
        done.check_returncode()
        return float(done.stdout.split()[-1])

    def case(self) -> Case:
        """The same flows for our medium, on the routes that SimGrid writes before it runs."""
        words = np.fromfile(self.folder / "routes", np.int32)
        indptr, links, at = [0], [], 0
        for _ in range(len(self.table)):
            links.append(words[at + 1 : at + 1 + words[at]])
            at += 1 + int(words[at])
            indptr.append(indptr[-1] + len(links[-1]))
        return Case.of(np.array(indptr), np.concatenate(links), self.table[:, 2])

    def ends(self) -> np.ndarray:
        """(flows,) end of each flow in s."""
        return np.fromfile(self.folder / "ends")


def largest_end_difference(case: Case, ends: np.ndarray) -> float:
    """Largest difference of a flow's end, as a fraction of the tolerance.

    The tolerance is 1e-9 of the end, 2 ticks per rate change, or SimGrid's own 1 ns.
    """
    rounding = max(2 * case.changes / PER_SECOND, 1e-9)
    allowed = np.maximum(1e-9 * ends, rounding)
    return float(np.max(np.abs(case.end / PER_SECOND - ends) / allowed))


def main(k: int = 16, *kinds: str) -> None:
    goals: dict[str, tuple[float, str, float]] = {}
    facts: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        for kind in kinds or GOALS:
            peer, goal = Peer(folder, k, kind), GOALS[kind]
            # our own routes are much like theirs: how long we take says how long to wait for them
            most = 1.5 * goal * best(Case(kind, k).run_seconds, 2)
            astra_sim_makespan = peer.run(most)
            case = peer.case()
            case.run_seconds()
            foretrace_makespan = best(case.run_seconds)
            if math.isinf(astra_sim_makespan):
                astra_sim_makespan = most
                facts[f"{kind}: SimGrid was stopped"] = True
            else:
                goals[f"{kind}: largest difference, of what is allowed"] = (
                    largest_end_difference(case, peer.ends()), "<=", 1)  # fmt: skip
            goals[f"{kind}: SimGrid's CPU seconds to ours"] = (
                astra_sim_makespan / foretrace_makespan,
                ">=",
                goal,
            )
            facts[kind] = {
                "flows": len(case.size),
                "simgrid_seconds": astra_sim_makespan,
                "seconds": foretrace_makespan,
            }
    report("simgrid", goals, hosts=k**3 // 4, **facts)


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))  # type: ignore[arg-type]
