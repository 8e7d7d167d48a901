"""Print the Debian packages that this machine still needs to build the lab, on one line.

Usage: ``python -m foretrace.hil.lab.packages_to_install``. The line is empty if the lab is built.
"""

from __future__ import annotations

import sys

from .build import unbuilt_machines
from .tools import missing_packages

if __name__ == "__main__":
    sys.stdout.write(" ".join(missing_packages(unbuilt_machines())) + "\n")
