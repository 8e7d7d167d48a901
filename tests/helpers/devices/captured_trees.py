"""Files of machines as they were published, laid out as the kernel has them below a root folder."""

import os

SOURCES = {
    "connectx-5": "ibv_devinfo of a ConnectX-5, github.com/open-mpi/ompi/pull/6137 (2018-12-12): "
    "vendor_part_id 4119",
    "connectx-6": "ibv_devinfo of a ConnectX-6, github.com/openucx/ucx/issues/4556 (2019-12-09): "
    "vendor_part_id 4123",
    "connectx-7": "ibv_devinfo of a ConnectX-7 on RoCE, github.com/deepseek-ai/DeepEP/issues/38 "
    "(2025): vendor_part_id 4129, link_layer Ethernet, PORT_ACTIVE",
    "infiniband": "ibv_devinfo, github.com/deepseek-ai/DeepEP/issues/55 (2025): port_lid 1691, "
    "link_layer InfiniBand",
    "cxl": "numactl -H of an expander as node 2, stevescargall.com/blog/2022/12/"
    "how-to-map-a-cxl-endpoint-to-a-cpu-socket-in-linux: no cpus, 65536 MB",
    "python": "docs.redhat.com, Installing and using dynamic programming languages (RHEL 9), "
    "table 1.1: 3.9, 3.11 since 9.2, 3.12 since 9.4; packages.ubuntu.com, python3 of jammy "
    "3.10, of noble 3.12; Debian 12's own list, python3 3.11.2 and python3-numpy 1.24.2",
}
PARTS = {"connectx-5": "0x1017", "connectx-6": "0x101b", "connectx-7": "0x1021"}  # 4119 4123 4129
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="{0}"\nPRETTY_NAME="Ubuntu {0}"'
RELEASES = {
    "debian 12": ('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"', 11),
    "ubuntu 22.04": (UBUNTU.format("22.04"), 10),
    "ubuntu 24.04": (UBUNTU.format("24.04"), 12),
    "rhel 9": ('ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\nPRETTY_NAME="RHEL 9.4"', 9),
    "rocky 9": ('ID="rocky"\nID_LIKE="rhel fedora"\nVERSION_ID="9.3"\nPRETTY_NAME="Rocky"', 9),
}
LIMITS = (
    "Limit                     Soft Limit\nMax locked memory         {}            {}   bytes\n"
)
PCI = "sys/bus/pci/devices"


class Tree:
    """A root folder to put files, links and devices below."""

    def __init__(self, root, release="debian 12"):
        self.root = root
        text, minor = RELEASES[release]
        self.file("etc/os-release", text)
        self.file("proc/self/limits", LIMITS.format("unlimited", "unlimited"))
        self.file(f"usr/bin/python3.{minor}", "")
        self.link("usr/bin/python3", f"python3.{minor}")

    def file(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def link(self, name, target):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.symlink(target, path)

    def programs(self, *names):
        for name in names:
            self.file(f"usr/bin/{name}")

    def modules(self, *names):
        for name in names:
            self.file(f"usr/lib/python3/dist-packages/{name}/__init__.py")

    def pci(self, address, code, vendor, device, driver=""):
        for name, text in {"class": code, "vendor": vendor, "device": device}.items():
            self.file(f"{PCI}/{address}/{name}", text)
        if driver:
            self.link(f"{PCI}/{address}/driver", f"../../../bus/pci/drivers/{driver}")

    def card(self, kind, address="0000:17:00.0", driver="mlx5_core"):
        self.pci(address, "0x020000", "0x15b3", PARTS[kind], driver)

    def rdma(self, name="mlx5_0", address="0000:17:00.0", state="4: ACTIVE", infiniband=False,
             gid="0000:0000:0000:0000:0000:ffff:c0a8:4d01", interface="ens1np0"):  # fmt: skip
        """An RDMA device of a card; of software where there is no address."""
        home = f"sys/class/infiniband/{name}"
        self.file(f"{home}/node_type", "1: CA")
        if address:
            self.link(f"{home}/device", f"../../../../{PCI}/{address}")
            self.file(f"{PCI}/{address}/net/{interface}/mtu", "9000")
        port = f"{home}/ports/1"
        layer, lid = ("InfiniBand", "0x69b") if infiniband else ("Ethernet", "0x0")
        for key, text in {"link_layer": layer, "lid": lid, "state": state}.items():
            self.file(f"{port}/{key}", text)
        (self.root / port / "gids").mkdir(exist_ok=True)
        if gid:
            self.file(f"{port}/gids/0", gid)
            self.file(f"{port}/gid_attrs/types/0", "IB/RoCE v1" if infiniband else "RoCE v2")
            self.file(f"{port}/gid_attrs/ndevs/0", "" if infiniband else interface)

    def two_hosts_ready(self, kind="connectx-7", **how):
        """A host on which nothing of RDMA is missing."""
        self.card(kind)
        self.rdma(**how)
        self.file("dev/infiniband/uverbs0")
        self.programs("ibv_devinfo", "ib_write_lat")
        self.modules("numpy", "pyverbs")

    def gpu(self, address="0000:1b:00.0", device="0x2330", driver="nvidia"):
        self.pci(address, "0x030200", "0x10de", device, driver)

    def node(self, number, cpus, megabytes):
        home = f"sys/devices/system/node/node{number}"
        self.file(f"{home}/cpulist", cpus)
        self.file(f"{home}/meminfo", f"Node {number} MemTotal:       {megabytes * 1024} kB")
