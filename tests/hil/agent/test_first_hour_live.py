"""The first commands of docs/first-hour.md in chroots of the distributions that it names.

Roots are unpacked from the distributions' own packages, so their Python and NumPy are those that a
host has. Needs apt, its mirrors and root; RHEL's packages are not among them.
"""

import os
import subprocess
from pathlib import Path

import pytest
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.inventory.inventory import inventory
from foretrace.hil.lab.debian import KEYRING, PackageDownloader, debian_mirror, unpack_packages
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import read
from foretrace.hil.sample import Request

pytestmark = pytest.mark.hardware("chroot")

UBUNTU = "http://archive.ubuntu.com/ubuntu"
RELEASES = {  # suite, Python, NumPy
    "debian 12": ("bookworm", "Python 3.11.2", "1.24.2"),
    "ubuntu 22.04": ("jammy", "Python 3.10", "1.21.5"),
    "ubuntu 24.04": ("noble", "Python 3.12", "1.26.4"),
}
LIBRARIES = "/usr/lib/x86_64-linux-gnu"  # where BLAS is before update-alternatives ran
FOLDERS = ("bin", "lib", "lib64", "sbin")


@pytest.fixture(scope="module", params=RELEASES)
def host(request, tmp_path_factory):
    """Name of a distribution, and a root with its Python and NumPy."""
    folder = tmp_path_factory.mktemp("root")
    suite = RELEASES[request.param][0]
    if suite == "bookworm":
        source = f"deb [signed-by={KEYRING}] {debian_mirror()} {suite} main"
    else:
        source = f"deb [signed-by={_ubuntu_keys(folder)}] {UBUNTU} {suite} main"
    packages = PackageDownloader(folder / "packages", source)
    packages.update()
    root = folder / "root"
    for name in FOLDERS:  # merged into /usr, as an installer does
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    unpack_packages(packages.fetch(["base-files", "python3", "python3-numpy", "coreutils"]), root)
    for name in ("dev", "proc"):
        (root / name).mkdir(exist_ok=True)
    os.mknod(root / "dev/null", 0o666 | 0o020000, os.makedev(1, 3))
    os.mknod(root / "dev/urandom", 0o666 | 0o020000, os.makedev(1, 9))
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/stat").write_text(Path("/proc/stat").read_text())
    (root / "proc/loadavg").write_text(Path("/proc/loadavg").read_text())
    return request.param, root


def _ubuntu_keys(folder):
    """Keyring of Ubuntu, which is a package of Debian."""
    made = folder / "keys"
    packages = PackageDownloader(folder / "of-debian")
    packages.update()
    unpack_packages(packages.fetch(["ubuntu-keyring"], depends=False), made)
    return next(made.rglob("ubuntu-archive-keyring.gpg"))


def inside(root, *command):
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{LIBRARIES}/blas:{LIBRARIES}/lapack"}
    return subprocess.run(
        ["/usr/sbin/chroot", str(root), *command],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_distribution_has_the_python_and_numpy_that_the_page_says(host):
    name, root = host
    _, python, numpy = RELEASES[name]
    assert inside(root, "python3", "--version").stdout.startswith(python)
    told = inside(root, "python3", "-c", "import numpy; print(numpy.__version__)")
    assert told.stdout.strip() == numpy, told.stderr


def test_the_agent_measures_there_or_says_what_to_type(host):
    name, root = host
    write_bundle(root / "foretrace-agent.pyz")
    work = WorkList("host", (Request("copy:h2h uint8[4096]", 3),), {}, 1, 1, 2, busy=99.0)
    (root / "work.json").write_text(work.text())
    done = inside(root, "python3", "/foretrace-agent.pyz", "--record", "/work.json", "--out", "/o")
    if name == "ubuntu 22.04":
        assert done.returncode == 4
        assert "Python 3.10, the agent needs 3.11 or later" in done.stderr
        assert "apt install python3.11" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (kept,) = (root / "o").glob("*.rec.gz")
    assert len(read(kept).samples) == 2


def test_what_doctor_reads_of_that_root_is_what_is_there(host):
    name, root = host
    found = {f.name: f for f in inventory(root, frozenset())}
    assert found["python"].state == ("bad" if name == "ubuntu 22.04" else "ok")
    version = RELEASES[name][1].removeprefix("Python ")
    assert ".".join(version.split(".")[:2]) in found["python"].observation


def test_without_numpy_both_say_which_package_brings_it(host):
    name, root = host
    if name == "ubuntu 22.04":
        pytest.skip("its Python is refused first")
    site = root / "usr/lib/python3/dist-packages"
    (site / "numpy").rename(site / "away")
    try:
        done = inside(root, "python3", "/foretrace-agent.pyz", "--record", "/work.json")
        finding = next(f for f in inventory(root, frozenset()) if f.name == "python")
    finally:
        (site / "away").rename(site / "numpy")
    assert "apt install python3-numpy" in done.stderr
    assert finding.command == "sudo apt install python3-numpy"
