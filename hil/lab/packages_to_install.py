"""Debian packages that building the lab still needs on this machine, printed on one line.

``python -m foretrace.hil.lab.packages_to_install``; an empty line where the lab is built.
"""

from __future__ import annotations

import sys

from .build import unbuilt_machines
from .tools import missing_packages

if __name__ == "__main__":
    sys.stdout.write(" ".join(missing_packages(unbuilt_machines())) + "\n")
