"""What ``foretrace doctor --hardware`` says of captured machines, and the command that it gives."""

import json
from pathlib import Path

import pytest
from captured_trees import LIMITS, Tree
from foretrace.hil.inventory.inventory import READY, inventory
from foretrace.scenarios.cli.app import app
from typer.testing import CliRunner

BOTH = frozenset({"torch", "nvidia-ml-py"})
RHEL_PYTHON = "sudo dnf install python3.11 python3.11-numpy"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def told(tree, packages=BOTH):
    return {f.name: f for f in inventory(tree.root, packages)}


def next_of(tree, packages=BOTH):
    return told(tree, packages)["next"].command


def test_a_machine_without_devices_is_pointed_to_the_lab(tree):
    tree.modules("numpy")
    found = told(tree)
    assert {n: f.state for n, f in found.items()} == {
        "python": "ok", "rdma": "off", "gpu": "off", "cxl": "off", "next": "ok",
    }  # fmt: skip
    assert found["next"].command.startswith("foretrace lab up")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("connectx-5", "ConnectX-5"), ("connectx-6", "ConnectX-6"), ("connectx-7", "ConnectX-7")],
)
def test_a_nic_is_diagnosed_step_by_step_from_slot_to_first_message(tree, kind, name):
    tree.modules("numpy")
    tree.card(kind, driver="")
    assert f"{name} at 0000:17:00.0: no driver has it" in told(tree)["nic"].observation
    assert next_of(tree) == "sudo modprobe mlx5_core"
    tree.card(kind)
    assert next_of(tree) == "sudo modprobe mlx5_ib"
    tree.rdma(state="1: DOWN", gid="")
    assert next_of(tree) == "sudo modprobe ib_uverbs"
    tree.file("dev/infiniband/uverbs0")
    assert next_of(tree) == "sudo ip link set ens1np0 up"
    tree.rdma(gid="")
    assert next_of(tree).startswith("sudo ip addr add 192.168.77.1/24 dev ens1np0")
    tree.rdma()
    packages = "rdma-core ibverbs-providers ibverbs-utils perftest python3-pyverbs"
    assert next_of(tree) == f"sudo apt install {packages}"
    tree.programs("ibv_devinfo", "ib_write_lat")
    tree.modules("pyverbs")
    tree.file("proc/self/limits", LIMITS.format(65536, 65536))
    assert told(tree)["memlock"].observation.startswith("64 KiB may be locked")
    assert "memlock unlimited" in next_of(tree)
    tree.file("proc/self/limits", LIMITS.format("unlimited", "unlimited"))
    assert next_of(tree) == READY["nic"]
    assert told(tree)["nic"].observation.endswith("port 1 is Ethernet, ens1np0, RoCE v2")


def test_a_fabric_without_a_manager_is_given_one_and_an_active_one_tells_its_lid(tree):
    tree.two_hosts_ready(infiniband=True, state="2: INIT",
                         gid="fe80:0000:0000:0000:a088:c203:007e:1dba")  # fmt: skip
    assert next_of(tree).startswith("sudo systemctl start opensm")
    tree.rdma(infiniband=True, gid="fe80:0000:0000:0000:a088:c203:007e:1dba")
    assert "InfiniBand, LID 1691" in told(tree)["nic"].observation
    assert next_of(tree) == READY["nic"]


def test_soft_rdma_of_no_card_is_an_adapter_too(tree):
    tree.two_hosts_ready()
    tree.rdma("rxe0", address="")
    texts = [f.observation for f in inventory(tree.root, BOTH) if f.name == "nic"]
    assert any(t.startswith("rxe0, software RDMA") for t in texts)
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("release", "install", "python"),
    [
        ("debian 12", "sudo apt install", "sudo apt install python3-numpy"),
        ("ubuntu 22.04", "sudo apt install", "sudo apt install python3.11 python3.11-venv && "
         "python3.11 -m venv ~/ft && ~/ft/bin/pip install numpy"),
        ("ubuntu 24.04", "sudo apt install", "sudo apt install python3-numpy"),
        ("rhel 9", "sudo dnf install", RHEL_PYTHON), ("rocky 9", "sudo dnf install", RHEL_PYTHON),
    ],
)  # fmt: skip
def test_each_distribution_installs_by_its_own_packages(tmp_path, release, install, python):
    tree = Tree(tmp_path, release)
    tree.card("connectx-6")
    tree.rdma()
    tree.file("dev/infiniband/uverbs0")
    assert told(tree)["rdma-core"].command.startswith(install)
    assert told(tree)["python"].command == python


def test_the_installed_python_is_reported_with_what_it_lacks(tmp_path):
    old = Tree(tmp_path / "old", "rhel 9")
    assert told(old)["python"].observation == "RHEL 9.4: Python 3.9, the agent needs 3.11"
    bare = Tree(tmp_path / "bare", "ubuntu 24.04")
    assert told(bare)["python"].observation == "Ubuntu 24.04: Python 3.12 without NumPy"
    bare.modules("numpy")
    assert told(bare)["python"].state == "ok"
    (bare.root / "usr/bin/python3").unlink()
    assert told(bare)["python"].observation.endswith("no /usr/bin/python3")


@pytest.mark.parametrize(
    ("release", "version", "site", "named"),
    [
        ("rhel 9", "3.11", "usr/lib64", "python3.11"),
        ("rocky 9", "3.12", "usr/lib64", "python3.12"),
        ("ubuntu 22.04", "3.11", f"{Path.home()}/ft/lib", "ft/bin/python"),
    ],
)
def test_a_python_installed_by_an_earlier_advice_is_found(tmp_path, release, version, site, named):
    """The system's own stays as old as it was: RHEL 9's is 3.9 for its whole life."""
    tree = Tree(tmp_path, release)
    assert told(tree)["python"].state == "bad"
    tree.file(f"usr/bin/python{version}")
    assert told(tree)["python"].state == "bad"  # without NumPy
    tree.file(f"{site.lstrip('/')}/python{version}/site-packages/numpy/__init__.py")
    assert told(tree)["python"].state == "ok"
    assert f"write python: {named} in agents.yaml" in told(tree)["python"].observation


def test_pyverbs_of_a_python_that_runs_no_agent_is_not_asked_for(tmp_path):
    tree = Tree(tmp_path, "rhel 9")
    tree.two_hosts_ready()
    for module in ("numpy", "pyverbs"):
        (tree.root / f"usr/lib/python3/dist-packages/{module}/__init__.py").unlink()
    for file in ("usr/bin/python3.11", "usr/lib64/python3.11/site-packages/numpy/__init__.py"):
        tree.file(file)
    assert told(tree)["rdma-core"].observation.endswith("which runs no agent: take perftest")
    assert next_of(tree) == READY["nic"]


def test_a_gpu_is_diagnosed_step_by_step_from_slot_to_recording_plan(tree):
    tree.modules("numpy")
    for address in ("0000:1b:00.0", "0000:43:00.0"):
        tree.gpu(address, driver="nouveau")
    assert told(tree)["gpu"].observation == "2 of h100-sxm5-80g: its driver is nouveau, not nvidia"
    assert "nvidia-open-kernel-dkms" in next_of(tree)
    for address in ("0000:1b:00.0", "0000:43:00.0"):
        tree.gpu(address)
    assert next_of(tree) == "sudo nvidia-modprobe -u -c 0"
    tree.file("dev/nvidia0")
    assert next_of(tree, frozenset()) == "pip install torch nvidia-ml-py"
    assert next_of(tree, frozenset({"torch"})) == "pip install nvidia-ml-py"
    assert next_of(tree) == "foretrace hil plan gpu --out work"


def test_open_kernel_modules_decide_if_a_nic_can_register_gpu_memory(tree):
    tree.gpu()
    tree.file("dev/nvidia0")
    assert told(tree)["dma-buf"].state == "off"
    assert "closed ones" in told(tree)["dma-buf"].observation
    tree.file("proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15")  # fmt: skip
    assert told(tree)["dma-buf"].state == "ok"


def test_a_gpu_missing_in_the_catalog_is_reported_by_its_pci_id(tree):
    tree.gpu(device="0x9999")
    tree.file("dev/nvidia0")
    assert told(tree)["gpu"].observation == "1 of 0x10de:0x9999: driver nvidia"


def test_a_cxl_expander_is_diagnosed_step_by_step_from_slot_to_numa_node(tmp_path):
    tree = Tree(tmp_path, "ubuntu 24.04")
    tree.modules("numpy")
    tree.node(0, "0-51", 64167)
    tree.pci("0000:ca:00.0", "0x050210", "0x1b00", "0xc000")
    assert next_of(tree) == "sudo modprobe -a cxl_acpi cxl_pci cxl_port cxl_mem"
    for name in ("mem0", "decoder0.0", "root0"):
        tree.file(f"sys/bus/cxl/devices/{name}/uevent")
    create = "sudo cxl create-region -m -t ram -d decoder0.0 mem0"
    assert next_of(tree) == f"sudo apt install cxl daxctl && {create}"
    tree.programs("cxl", "daxctl")
    assert next_of(tree) == create
    tree.file("sys/bus/dax/devices/dax0.0/size")
    assert next_of(tree) == "sudo daxctl reconfigure-device --mode=system-ram dax0.0"
    tree.node(2, "", 65536)
    assert told(tree)["cxl"].observation == "mem0: node2 has memory and no processor"
    assert next_of(tree) == "foretrace drivers cxl"


def test_a_numa_node_without_memory_is_not_a_working_expander(tmp_path):
    tree = Tree(tmp_path, "ubuntu 24.04")
    tree.file("sys/bus/cxl/devices/mem0/uevent")
    tree.node(2, "", 0)
    assert told(tree)["cxl"].state == "bad"


def test_the_next_command_removes_the_first_obstacle(tmp_path):
    """Of a host with everything: the machine, the adapter, then the GPU."""
    tree = Tree(tmp_path, "rhel 9")
    tree.two_hosts_ready()
    tree.gpu(driver="")
    assert next_of(tree) == RHEL_PYTHON
    assert told(tree)["gpu"].state == "bad"


def test_the_command_prints_each_finding_and_what_to_type():
    done = CliRunner().invoke(app, ["doctor", "--hardware"])
    assert done.exit_code == 0, done.output
    names = [line.split()[1] for line in done.output.splitlines() if line[:1].strip()]
    assert {"python", "gpu", "cxl", "next"} <= set(names)
    assert "$ " in done.output
    found = json.loads(CliRunner().invoke(app, ["doctor", "--hardware", "--json"]).stdout)
    assert [f["name"] for f in found["findings"]][-1] == "next"
