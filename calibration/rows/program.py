"""Program that is running, as the catalog records it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def program_and_commit(file: str) -> str:
    """Path of a program of this checkout, and the checked-out commit.

    ``calibration/fit/kernels.py@58a5814``
    """
    command = ["git", "rev-parse", "--short=7", "HEAD"]
    head = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return f"{Path(file).resolve().relative_to(ROOT)}@{head.stdout.strip()}"
