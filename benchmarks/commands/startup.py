"""Cost of start-up: CPU seconds of new interpreters, interleaved with an empty one."""

import os
import statistics
import subprocess
import sys

from .._measure import report

ROUNDS = 7
PROGRAMS = {
    "bare": "pass",
    "numpy": "import numpy",
    "foretrace": "import foretrace",
    "help": "import sys; sys.argv = ['foretrace', '--help']; "
    "from foretrace.__main__ import main; main()",
}


def run_python(program: str) -> float:
    """CPU seconds (user and system) of one interpreter that runs a program."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{program!r} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    spent: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, program in PROGRAMS.items():
            spent[name].append(run_python(program))
    cpu = {name: statistics.median(s) for name, s in spent.items()}
    report(
        "startup",
        {
            "foretrace --help, CPU s over a bare interpreter": (
                cpu["help"] - cpu["bare"],
                "<=",
                0.25,
            ),
            "import foretrace, CPU s over import numpy": (
                cpu["foretrace"] - cpu["numpy"],
                "<=",
                0.05,
            ),
        },
        cpu_seconds=cpu,
    )


if __name__ == "__main__":
    main()
