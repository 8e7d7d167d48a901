"""What a machine has, from a tree like the kernel's."""

import pytest
from foretrace.hil.discovery import discover

GPU = {"class": "0x030200", "vendor": "0x10de", "device": "0x2335", "numa_node": "1",
       "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}  # fmt: skip
NIC = {"class": "0x020700", "vendor": "0x15b3", "device": "0x1021", "numa_node": "1",
       "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}  # fmt: skip


@pytest.fixture
def sysfs(tmp_path):
    """Writes devices as sysfs shows them."""

    def write(**devices):
        for address, files in devices.items():
            folder = tmp_path / "bus/pci/devices" / address.replace("_", ":")
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text + "\n")
        return tmp_path

    node = tmp_path / "devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("8-15\n")
    (node / "meminfo").write_text("Node 1 MemTotal:       1000000 kB\n")
    return write


def test_a_machine_is_written_as_a_scenarios_cluster_section(sysfs):
    root = sysfs(**{"0000_17_00.0": GPU, "0000_18_00.0": GPU, "0000_19_00.0": NIC})
    (root / "bus/pci/devices/0000:19:00.0/net/ib0").mkdir(parents=True)
    told = discover("box", root, lists=()).yaml()
    assert told.splitlines() == [
        "# discovered on box",
        "# numa node 1: processors 8-15, 1.0 GB",
        "# gpu 0000:17:00.0 0x10de:0x2335 numa 1, pcie5-x16",
        "# gpu 0000:18:00.0 0x10de:0x2335 numa 1, pcie5-x16",
        "# nic 0000:19:00.0 0x15b3:0x1021 numa 1, pcie5-x16, ib0",
        "# gpu 0000:17:00.0 is nearest to ib0",
        "# gpu 0000:18:00.0 is nearest to ib0",
        "cluster:",
        "  nodes: 1",
        "  node:",
        "    gpu: {model: h200-sxm-141g, count: 2}",
        "    nic: {model: connectx-7, count: 1}",
    ]


def test_devices_missing_in_the_catalog_are_reported_not_guessed(sysfs):
    root = sysfs(**{"0000_17_00.0": {**GPU, "device": "0x9999", "numa_node": "-1"},
                    "0000_18_00.0": {**NIC, "current_link_speed": "Unknown"}})  # fmt: skip
    told = discover("box", root, lists=()).yaml()
    assert "# gpu: 1 of 0x10de:0x9999, which no catalog names" in told
    assert "# gpu 0000:17:00.0 is nearest to no nic of a known node" in told
    assert "# nic 0000:18:00.0 0x15b3:0x1021 numa 1\n" in told


def test_a_machine_with_several_gpu_models_is_not_merged_into_one(sysfs):
    root = sysfs(**{"0000_17_00.0": GPU, "0000_18_00.0": {**GPU, "device": "0x2330"}})
    assert (
        "# gpu: several models ['h100-sxm5-80g', 'h200-sxm-141g']"
        in discover("b", root, lists=()).yaml()
    )


def test_a_machine_without_devices_says_so(sysfs):
    told = discover("box", sysfs(**{"0000_01_00.0": {**GPU, "class": "0x010000"}}), lists=()).yaml()
    assert told.endswith(
        "  node:\n    gpu:  # none found; name the part that plays the accelerator\n"
    )


IDS = """\
10de  NVIDIA Corporation
\t2204  GA102 [GeForce RTX 3090]
\t2684  AD102 [GeForce RTX 4090]
15b3  Mellanox Technologies
\t101d  MT2892 Family [ConnectX-6 Dx]
C 03  Display controller
"""


def test_device_names_come_from_the_systems_pci_id_list(sysfs, tmp_path):
    """What the catalog has under that name is that part; the others are told by name."""
    root = sysfs(**{"0000_17_00.0": {**GPU, "device": "0x2684"},
                    "0000_18_00.0": {**NIC, "device": "0x101d"}})  # fmt: skip
    (tmp_path / "pci.ids").write_text(IDS)
    lists = (tmp_path / "nothing", tmp_path / "pci.ids")
    told = discover("box", root, ["rtx-4090", "connectx-7"], lists).yaml()
    assert "    gpu: {model: rtx-4090, count: 1}\n" in told
    assert "# nic: 1 of 0x15b3:0x101d (MT2892 Family [ConnectX-6 Dx]), which no catalog" in told
    without = discover("box", root, ["rtx-4090"], ()).yaml()
    assert "# gpu: 1 of 0x10de:0x2684, which no catalog names" in without


def test_parts_are_matched_with_the_catalog():
    from foretrace.hil.discovery import CATALOG
    from foretrace.scenarios.config.catalog import installed

    known = installed(())
    names = {name for kind in ("gpu", "nic", "cxl") for name in known.names(kind)}
    assert set(CATALOG.values()) <= names
