"""Debian packages, downloaded and unpacked without root and without changing this machine.

apt gets its own package lists and an empty list of installed packages, but uses this machine's
mirror, proxy and keys. Packages are unpacked, never installed: no maintainer script runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...sim.errors import HardwareUnavailable

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def run_build_step(command: Sequence[str], *, env: dict[str, str] | None = None,
        cwd: Path | None = None, doing: str = "") -> str:  # fmt: skip
    r"""Run a command of the build and return its standard output.

    Raises
    ------
    HardwareUnavailable
        The command is missing or failed; with the last lines of its output.

    Examples
    --------
    >>> run_build_step(["echo", "built"])
    'built\n'
    """
    try:
        done = subprocess.run(
            command, env={**os.environ, **(env or {})}, cwd=cwd, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise HardwareUnavailable(
            f"lab: no {command[0]} here ({doing or 'a step of the build'}); install it with apt"
        ) from error
    if done.returncode:
        tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise HardwareUnavailable(
            f"lab: {doing or command[0]} failed: {' | '.join(tail)}; fix "
            "that, then run foretrace lab up again"
        )
    return done.stdout


def debian_mirror() -> str:
    """URL of the Debian mirror that apt uses on this machine.

    Raises
    ------
    HardwareUnavailable
        apt is missing, or has no list of Debian packages.
    """
    listed = run_build_step(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN)|$(LABEL)|$(SITE)",
            "Created-By: Packages",
        ],
        doing="asking apt for its mirror",
    )
    for line in listed.splitlines():
        origin, label, site = line.split("|", 2)
        if origin == label == "Debian":
            return site
    raise HardwareUnavailable("lab: apt has no list of Debian packages; run apt-get update")


class PackageDownloader:
    """Downloader of Debian packages into one folder, with its own package lists.

    Parameters
    ----------
    folder : Path
        Folder of package lists and packages.
    source : str
        Line of ``sources.list``; "" for the mirror that apt uses on this machine.
    """

    def __init__(self, folder: Path, source: str = ""):
        self.folder, self.source = folder.resolve(), source

    def update(self) -> None:
        """Download the package lists."""
        for name in ("lists/partial", "cache/archives/partial", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "state/status").touch()
        usual = f"deb [signed-by={KEYRING}] {debian_mirror()} {SUITE} main"
        (self.folder / "sources.list").write_text((self.source or usual) + "\n")
        (self.folder / "apt.conf").write_text(self._apt_settings())
        self._run_apt("update", doing="fetching the list of packages")

    def fetch(self, names: Sequence[str], depends: bool = True) -> list[Path]:
        """Download packages and, unless ``depends`` is false, all their dependencies.

        Returns the paths of the package files.
        """
        if not depends:
            self._run_apt(
                "download", *names, doing=f"fetching {names[0]}", cwd=self._archive_folder
            )
            return [self._newest_archive(name) for name in names]
        # in an empty folder all is listed as lacking
        (self.folder / "none/partial").mkdir(parents=True, exist_ok=True)
        listed = self._run_apt("install", "--print-uris", "-y", *names,
                           "-o", f"Dir::Cache::archives={self.folder}/none",
                           doing="working out what the packages need")  # fmt: skip
        files = [line.split()[1] for line in listed.splitlines() if line.startswith("'")]
        self._run_apt("install", "--download-only", "-y", *names,
                  doing=f"fetching {len(files)} packages")  # fmt: skip
        return [self._archive_folder / name for name in files]

    @property
    def _archive_folder(self) -> Path:
        return self.folder / "cache/archives"

    def _newest_archive(self, name: str) -> Path:
        files = sorted(self._archive_folder.glob(f"{name}_*.deb"), key=lambda f: f.stat().st_mtime)
        return files[-1]

    def _run_apt(self, *words: str, doing: str, cwd: Path | None = None) -> str:
        env = {"APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        return run_build_step(["apt-get", "-q", *words], env=env, cwd=cwd, doing=doing)

    def _apt_settings(self) -> str:
        f = self.folder
        return f"""Dir::Etc::sourcelist "{f}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
Dir::State "{f}/state";
Dir::State::lists "{f}/lists";
Dir::State::status "{f}/state/status";
Dir::Cache "{f}/cache";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Sandbox::User "";
APT::Install-Recommends "false";
Acquire::Languages "none";
Debug::NoLocking "true";
"""


def unpack_packages(packages: Sequence[Path], into: Path) -> None:
    """Unpack packages into a folder.

    Base-files comes first because it creates the top-level links.
    """
    into.mkdir(parents=True, exist_ok=True)
    for package in sorted(packages, key=lambda f: not f.name.startswith("base-files_")):
        run_build_step(
            ["dpkg-deb", "-x", str(package), str(into)], doing=f"unpacking {package.name}"
        )


def package_version(package: Path) -> str:
    """``name version`` of a package, from its file name.

    >>> package_version(Path("python3-pyverbs_56.1-1_amd64.deb"))
    'python3-pyverbs 56.1-1'
    """
    name, text, _ = package.name.split("_", 2)
    return f"{name} {text.replace('%3a', ':')}"
