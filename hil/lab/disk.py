"""Boot files for QEMU: Debian's kernel, the disk, and an initramfs with the disk's modules."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
from pathlib import Path

from ...sim.errors import HardwareUnavailable
from . import initramfs
from .build_cache import (
    GUEST_DISK,
    GUEST_INITRD,
    GUEST_KERNEL,
    add_versions,
    lab_folder,
    replacing_part,
)
from .cpio import cpio_archive
from .debian import PackageDownloader, package_version, run_build_step, unpack_packages

FIRST = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")  # which asks for a checksum
SPARE = 64  # MiB of the disk beyond its files
INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules); do /bin/busybox insmod $module; done
until /bin/busybox test -b /dev/vda; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 -o ro /dev/vda /new || /bin/busybox echo "lab: no disk"
/bin/busybox mount --move /dev /new/dev
exec /bin/busybox switch_root /new /usr/sbin/lab-start
"""


def build_disk(packages: PackageDownloader, names: tuple[str, ...]) -> None:
    """Build kernel, initramfs and disk image from packages; requires mke2fs, but not root."""
    tree = initramfs.build_root(packages, names, "disk")
    image = _kernel_package(packages)
    unpack_packages([image], tree)
    (kernel,) = sorted((tree / "boot").glob("vmlinuz-*"))[-1:]
    release = kernel.name.removeprefix("vmlinuz-")
    shutil.copyfile(kernel, lab_folder() / GUEST_KERNEL)
    add_versions({"qemu-kernel": package_version(image)})
    shutil.rmtree(tree / "boot")
    _index_modules(tree, release)
    _write_initrd(tree, release)
    _write_disk(tree)


def _kernel_package(packages: PackageDownloader) -> Path:
    """Package file of the kernel that linux-image-amd64 depends on."""
    for file in packages.fetch(["linux-image-amd64"]):
        if file.name.startswith("linux-image-6"):
            return file
    raise HardwareUnavailable("lab: linux-image-amd64 brings no kernel; adapt lab/disk.py")


def _index_modules(tree: Path, release: str) -> None:
    """Write the dependency index of the kernel modules, with depmod from the unpacked packages."""
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    run_build_step([str(tree / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries),
         "--argv0", "depmod", str(tree / "usr/bin/kmod"), "-b", str(tree), release],
        doing="indexing kernel modules")  # fmt: skip


def _module_files(modules: Path) -> list[str]:
    """Files of the kernel modules needed to mount the disk, dependencies first."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        needs[file] = rest.split()
    built_in = (modules / "modules.builtin").read_text()
    ordered: list[str] = []
    for name in FIRST:
        matches = [f for f in needs if Path(f).name.split(".")[0] == name]
        if not matches and f"/{name}.ko" not in built_in:
            raise HardwareUnavailable(f"lab: the kernel has no module {name}; adapt lab/disk.py")
        for file in matches:
            ordered += [f for f in (*reversed(needs[file]), file) if f not in ordered]
    return ordered


def _write_initrd(tree: Path, release: str) -> None:
    modules, first = tree / "usr/lib/modules" / release, lab_folder() / "first"
    shutil.rmtree(first, ignore_errors=True)
    for name in ("bin", "dev", "new"):
        (first / name).mkdir(parents=True)
    shutil.copy(tree / "usr/bin/busybox", first / "bin/busybox")
    names = []
    for file in _module_files(modules):
        name = Path(file).name.removesuffix(".xz")
        data = (modules / file).read_bytes()
        (first / name).write_bytes(lzma.decompress(data) if file.endswith(".xz") else data)
        names.append(f"/{name}")
    (first / "modules").write_text("\n".join(names) + "\n")
    (first / "init").write_text(INIT)
    (first / "init").chmod(0o755)
    (lab_folder() / GUEST_INITRD).write_bytes(gzip.compress(cpio_archive(first), 1))
    shutil.rmtree(first)


def _write_disk(tree: Path) -> None:
    """Write a folder as an ext4 disk image, then remove the folder."""
    size = sum(f.lstat().st_size for f in tree.rglob("*") if not f.is_dir())
    blocks = size // 4096 * 13 // 10 + (SPARE << 8)
    with replacing_part(GUEST_DISK) as image:
        run_build_step(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-b", "4096",
             "-d", str(tree), str(image), str(blocks)], doing="writing the disk")  # fmt: skip
        os.chmod(image, 0o644)
    shutil.rmtree(tree)
