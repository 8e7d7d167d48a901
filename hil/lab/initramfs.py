"""Root file system of the lab's machines: unpacked Debian packages and an init script."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from .build_cache import ROOT, add_versions, lab_folder, replacing_part
from .debian import PackageDownloader, package_version, unpack_packages

RDMA = ("python3-pyverbs", "python3-numpy", "ibverbs-providers", "perftest", "iproute2",
        "busybox-static", "dash", "openvswitch-switch")  # fmt: skip
MEMORY = ("cxl", "daxctl", "numactl", "kmod")
COLLECTIVES = ("python3-torch",)
APPLETS = (
    "mount umount cat cut grep sed tr ls mkdir ln sleep stty hostname poweroff insmod uname "
    "seq head tail basename dirname env rm cp chmod awk echo ps kill setsid"
)
FOLDERS = ("proc", "sys", "dev", "run", "tmp", "mnt", "root", "etc", "var/log")


def build_root(packages: PackageDownloader, names: tuple[str, ...], name: str = ROOT) -> Path:
    """Unpack packages and their dependencies into a root folder ``name``; returns its path."""
    fetched = packages.fetch(names)
    with replacing_part(name) as into:
        unpack_packages(fetched, into)
        _finish_root(into)
    add_versions(
        {f"{name}/{n}": v for n, v in (package_version(f).split() for f in fetched) if n in names}
    )
    return lab_folder() / name


def _finish_root(root: Path) -> None:
    """Create folders, links and files that Debian's maintainer scripts would have created."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    _top_links(root)
    for applet in APPLETS.split():
        _make_link(root / "usr/bin" / applet, "busybox")
    libraries = root / "usr/lib/x86_64-linux-gnu"
    for library, folder in (("libblas.so.3", "blas"), ("liblapack.so.3", "lapack")):
        if (libraries / folder / library).exists():
            _make_link(libraries / library, f"{folder}/{library}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    start = root / "usr/sbin/lab-start"
    start.write_text((files(__package__) / "guest" / "start.sh").read_text())
    start.chmod(0o755)


def _top_links(root: Path) -> None:
    """Create missing top-level links such as ``/bin`` into ``/usr``."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (root / name).exists():
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            _make_link(root / name, f"usr/{name}")


def _make_link(at: Path, to: str) -> None:
    if not at.exists() and not at.is_symlink():
        os.symlink(to, at)
