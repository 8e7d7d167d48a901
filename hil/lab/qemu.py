"""Machine ``qemu`` of the lab: a PC emulated by QEMU, with instruction counting.

QEMU is unpacked from Debian's package, not installed. With ``-icount shift=0`` one guest
instruction takes one ns. This gives a repeatable clock for the drivers' code path, not for
hardware. A CXL type-3 expander is behind a root port. Two machines can be two hosts connected by a
wire.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...sim.errors import DriverFault
from .build_cache import (
    GUEST_DISK,
    GUEST_INITRD,
    GUEST_KERNEL,
    add_versions,
    built_file_path,
    replacing_part,
)
from .debian import PackageDownloader, package_version, unpack_packages
from .staging import stage_agent_files
from .vm import NOBODY
from .wire import HOST, WIRE, wire_ends

PROGRAM, PACKAGE = "qemu", "qemu-system-x86"
EXPANDER = 512  # MiB
COUNTED = ["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=off"]
PLAIN = ["-accel", "tcg,thread=multi", "-smp", "2"]
CXL = [
    "-object", f"memory-backend-ram,id=far,share=on,size={EXPANDER}M",
    "-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl1",
    "-device", "cxl-rp,port=0,bus=cxl1,id=port1,chassis=0,slot=2",
    "-M", "cxl-fmw.0.targets.0=cxl1,cxl-fmw.0.size=4G",
    "-device", "cxl-type3,bus=port1,volatile-memdev=far,id=expander",
]  # fmt: skip


def unpack_qemu(packages: PackageDownloader) -> None:
    """Unpack QEMU and the libraries that it needs."""
    files = packages.fetch([PACKAGE])
    with replacing_part(PROGRAM) as into:
        unpack_packages(files, into)
    add_versions(
        {"qemu": next(package_version(f) for f in files if f.name.startswith(f"{PACKAGE}_"))}
    )


def command(settings: Mapping[str, str]) -> list[str]:
    """Command line that starts the virtual machine with QEMU.

    Parameters
    ----------
    settings : ``lab.*`` words of the kernel's command line. ``cxl=1`` adds the expander;
        ``clock=wall`` turns instruction counting off; ``vlan=ID`` gives each RDMA device an address
        on a VLAN; ``wire=NAME host=1`` makes the machine one of two hosts

    Raises
    ------
    DriverFault
        ``unsupported``: soft-iWARP, which Debian's kernel lacks, or a wire together with
        instruction counting, because two such machines share no time.
    """
    if settings.get("provider", "rxe") != "rxe":
        raise DriverFault("unsupported", "lab: Debian's kernel has no soft-iWARP; take lab: uml")
    words_by_key = dict(settings)
    cxl, counted = words_by_key.get("cxl") == "1", words_by_key.pop("clock", "icount") == "icount"
    program = built_file_path(PROGRAM)
    clock = "icount" if counted else "wall"
    if WIRE in settings:
        _check_wired(settings, counted)
    words = " ".join(f"lab.{key}={value}" for key, value in words_by_key.items())
    return [
        str(program / "usr/lib64/ld-linux-x86-64.so.2"),
        "--library-path", f"{program}/usr/lib/x86_64-linux-gnu",
        str(program / "usr/bin/qemu-system-x86_64"),
        "-L", f"{program}/usr/share/qemu", "-L", f"{program}/usr/share/seabios",
        "-M", "q35,cxl=on" if cxl else "q35",
        "-cpu", "max,-hypervisor",  # a kernel that sees a hypervisor commits no CXL region
        "-m", "1536M,maxmem=4G,slots=4" if cxl else "768M",
        *(COUNTED if counted else PLAIN),
        "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
        "-kernel", str(built_file_path(GUEST_KERNEL)),
        "-initrd", str(built_file_path(GUEST_INITRD)),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable "
                   f"foretrace.clock={clock} lab.share=9p lab.run=agent {words}",
        "-drive", f"file={built_file_path(GUEST_DISK)},if=none,id=disk,format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=disk",
        "-fsdev", f"local,id=share,path={stage_agent_files()},security_model=none,readonly=on",
        "-device", "virtio-9p-pci,fsdev=share,mount_tag=lab",
        "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
        "-add-fd", "fd=3,set=1", "-add-fd", "fd=4,set=2",
        "-chardev", "file,id=line,path=/dev/fdset/2,append=on,input-path=/dev/fdset/1",
        "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=line,name=foretrace",
        *(CXL if cxl else []),
        *(_network_device(settings) if WIRE in settings else []),
    ]  # fmt: skip


def _check_wired(settings: Mapping[str, str], counted: bool) -> None:
    """Refuse settings that a host on a wire does not support."""
    if counted:
        raise DriverFault("unsupported", "lab: two machines that count instructions share no time; "
                          "set clock=wall together with wire")  # fmt: skip
    if lost := [name for name in ("ends", "addresses", "vlan") if name in settings]:
        raise DriverFault("unsupported", "lab: a machine with a wire has one device with one "
                          f"address; leave out {lost[0]}")  # fmt: skip


def _network_device(settings: Mapping[str, str]) -> list[str]:
    """QEMU arguments of an Ethernet device that is connected to a wire."""
    own, other = wire_ends(settings, NOBODY)
    return [
        "-netdev", f"dgram,id=wire,local.type=unix,local.path={own},"
                   f"remote.type=unix,remote.path={other}",
        "-device", f"virtio-net-pci,netdev=wire,mac=02:00:00:00:00:0{settings[HOST]},romfile=",
    ]  # fmt: skip
