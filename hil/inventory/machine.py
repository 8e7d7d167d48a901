"""Machine as its files describe it: Linux distribution, Python, packages, process limits."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..sysfs import stripped_text
from .finding import Finding

OLDEST = (3, 11)  # Python that an agent needs
ENVIRONMENT = "ft"  # folder in the user's home of the environment that the cure makes
LOCKED = 64 << 20  # B that a process should be allowed to lock: registered memory is


@dataclass(frozen=True)
class DistributionPackages:
    """Package names and install commands of one family of Linux distributions, such as Debian.

    Parameters
    ----------
    install : command that installs packages; package names follow
    rdma, perftest, pyverbs : package names
    python : commands that install Python 3.11 or later with NumPy
    nvidia : command that installs NVIDIA's driver with open kernel modules
    cxl : names of the packages of ``cxl`` and ``daxctl``
    """

    install: str
    rdma: str
    perftest: str
    pyverbs: str
    python: str
    nvidia: str
    cxl: str


VENV = f"python{{v}} -m venv ~/{ENVIRONMENT} && ~/{ENVIRONMENT}/bin/pip install numpy"
DEBIAN = DistributionPackages(
    "sudo apt install",
    "rdma-core ibverbs-providers ibverbs-utils",
    "perftest",
    "python3-pyverbs",
    "sudo apt install python3-numpy",
    "sudo apt install nvidia-open-kernel-dkms nvidia-driver nvidia-smi  # of non-free",
    "daxctl ndctl",
)
DISTRIBUTIONS = {
    "debian 12": DEBIAN,
    "ubuntu 22.04": DistributionPackages(
        **{
            **vars(DEBIAN),
            "python": "sudo apt install python3.11 python3.11-venv && " + VENV.format(v="3.11"),
            "nvidia": "sudo ubuntu-drivers install --gpgpu nvidia:570-server-open",
        }
    ),
    "ubuntu 24.04": DistributionPackages(
        **{
            **vars(DEBIAN),
            "nvidia": "sudo ubuntu-drivers install --gpgpu nvidia:570-server-open",
            "cxl": "cxl daxctl",
        }
    ),
    "rhel 9": DistributionPackages(
        "sudo dnf install",
        "rdma-core libibverbs-utils",
        "perftest",
        "python3-pyverbs",
        "sudo dnf install python3.11 python3.11-numpy",
        "sudo dnf module install nvidia-driver:open-dkms  # of NVIDIA's own repository",
        "cxl-cli daxctl",
    ),
}
"""By ``ID VERSION_ID`` of ``os-release``; of RHEL the major version, also for those that are built
like it (``ID_LIKE``)."""
PROGRAMS = ("usr/bin", "usr/sbin", "usr/local/bin")
SITES = (
    "usr/lib/python3/dist-packages", "usr/lib64/python{v}/site-packages",
    "usr/lib/python{v}/site-packages", "usr/local/lib/python{v}/dist-packages",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """Machine whose files are below a root folder.

    Parameters
    ----------
    root : ``/``, or a captured copy of a machine's files
    """

    root: Path = Path("/")

    def text(self, name: str) -> str:
        """Stripped text of a file; "" if it cannot be read."""
        return stripped_text(self.root / name)

    def names(self, folder: str) -> list[str]:
        """Sorted names in a folder; empty if the folder does not exist."""
        path = self.root / folder
        return sorted(p.name for p in path.iterdir()) if path.is_dir() else []

    def has_program(self, name: str) -> bool:
        """True if a program is installed."""
        return any((self.root / folder / name).exists() for folder in PROGRAMS)

    def link_name(self, path: str) -> str:
        """Last part of the target of a symbolic link, such as a device's driver.

        "" if it is no link.
        """
        try:
            return os.path.basename(os.readlink(self.root / path))
        except OSError:
            return ""

    def release(self) -> dict[str, str]:
        """Fields of ``os-release`` by key."""
        rows = (line.partition("=") for line in self.text("etc/os-release").splitlines())
        return {k: v.strip('"') for k, _, v in rows if k}

    @property
    def distribution(self) -> DistributionPackages:
        """Package names of the machine's distribution.

        Those of Debian 12 if the distribution is unknown.
        """
        told = self.release()
        family = f"{told.get('ID', '')} {told.get('ID_LIKE', '')}".split()
        version = told.get("VERSION_ID", "")
        if {"rhel", "fedora", "centos"} & set(family):
            return DISTRIBUTIONS["rhel 9"]
        return DISTRIBUTIONS.get(f"{told.get('ID', '')} {version}", DEBIAN)

    @property
    def python(self) -> tuple[int, int] | None:
        """Version of ``/usr/bin/python3``; None if there is no such Python."""
        found = re.fullmatch(r"python(\d)\.(\d+)", self.link_name("usr/bin/python3"))
        return (int(found[1]), int(found[2])) if found else None

    @property
    def other_python(self) -> str:
        """Path of a Python other than the system's that can run an agent; "" if there is none.

        It was installed by a package, or is in the virtual environment that an earlier finding told
        the user to create. Write its path as ``python:`` in agents.yaml.
        """
        found = (re.fullmatch(r"python3\.(\d+)", name) for name in self.names("usr/bin"))
        for minor in sorted(int(m[1]) for m in found if m and (3, int(m[1])) >= OLDEST):
            sites = (self.root / s.format(v=f"3.{minor}") for s in SITES[1:])
            if any((site / "numpy/__init__.py").exists() for site in sites):
                return f"python3.{minor}"
        home = self.root / str(Path.home()).lstrip("/") / ENVIRONMENT
        made = any(home.glob("lib/python3.*/site-packages/numpy/__init__.py"))
        return f"{ENVIRONMENT}/bin/python" if made else ""

    @property
    def runs_agents(self) -> bool:
        """True if the system's Python is new enough to run an agent.

        Only then the modules that are installed for it can be used.
        """
        return self.python is not None and self.python >= OLDEST

    def has_module(self, name: str) -> bool:
        """True if the system's Python has a module."""
        version = ".".join(map(str, self.python or ()))
        sites = (self.root / s.format(v=version) for s in SITES)
        return any((site / name / "__init__.py").exists() for site in sites)

    def locked_limit(self) -> float:
        """Number of bytes that a process may lock in memory; infinite if unlimited or unknown."""
        found = re.search(r"^Max locked memory\s+(\S+)", self.text("proc/self/limits"), re.M)
        return float(found[1]) if found and found[1].isdigit() else float("inf")


def findings(machine: Machine) -> list[Finding]:
    """Finding about the machine's Python: whether it can run an agent."""
    told = machine.release().get("PRETTY_NAME", "an unknown distribution")
    version, cure = machine.python, machine.distribution.python
    if version is None:
        return [Finding("python", "bad", f"{told}: no /usr/bin/python3", cure)]
    text = f"{told}: Python {version[0]}.{version[1]}"
    good = version >= OLDEST and machine.has_module("numpy")
    if not good and (other := machine.other_python):
        return [Finding("python", "ok", f"{text}; {other} with NumPy runs foretrace-agent.pyz: "
                        f"write python: {other} in agents.yaml")]  # fmt: skip
    if version < OLDEST:
        return [Finding("python", "bad", f"{text}, the agent needs 3.11", cure)]
    if not good:
        return [Finding("python", "bad", f"{text} without NumPy", cure)]
    return [Finding("python", "ok", f"{text} with NumPy: it runs foretrace-agent.pyz")]
