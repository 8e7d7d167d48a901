"""The agent as one file: standard library and NumPy are enough, online and offline."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest
from foretrace.hil.agent.bundle import bundle_bytes, bundled_files, cached_bundle, write_bundle
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.agent.import_closure import import_closure
from foretrace.hil.agent.transport import start_agent_process
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import read
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault

ODD = Path(__file__).parents[2] / "helpers/devices/odd_driver.py"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder with the agent's file, and an environment that holds NumPy and nothing else."""
    folder = tmp_path_factory.mktemp("there")
    write_bundle(folder / "foretrace-agent.pyz")
    site = Path(numpy.__file__).parent.parent
    (folder / "site").mkdir()
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (folder / "site" / name).symlink_to(site / name)
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    return folder, [sys.executable, "-S", str(folder / "foretrace-agent.pyz")], environment


def test_the_bundle_needs_only_numpy(bare):
    _, command, environment = bare
    remote = RemoteDriver(start_agent_process([*command, "--stdio"], environment), "host")
    remote.open({})
    assert remote.timing([Request("copy:h2h uint8[4096]", 3)])[0].ns.min() > 0
    remote.close()
    site = [sys.executable, "-S", "-c", "import simpy"]
    assert subprocess.run(site, env=environment, capture_output=True).returncode == 1


def test_files_follow_from_imports_direct_indirect_and_inside_functions(tmp_path):
    for name, text in {
        "start.py": "from typing import TYPE_CHECKING\n"
        "from .room.near import x\n"
        "if TYPE_CHECKING:\n    from .only_types import T\n",
        "room/__init__.py": "",
        "room/near.py": "def x():\n    from .. import far\n    import os\n",
        "far.py": "from .start import nothing_but_a_name\n",
        "only_types.py": "",
        "unused.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    closure = import_closure([tmp_path / "start.py"], tmp_path)
    names = sorted(str(file.relative_to(tmp_path)) for file in closure)
    assert names == ["far.py", "room/__init__.py", "room/near.py", "start.py"]


def test_the_file_holds_the_drivers_and_what_they_import_but_neither_engine_nor_lab():
    names = {name.removeprefix("foretrace/") for name in bundled_files()}
    assert {"hil/drivers/memory/host.py", "hil/sample.py", "sim/facts/signature.py"} <= names
    assert not any(n.startswith(("sim/core", "sim/run", "hil/lab", "hil/coupling")) for n in names)


def test_every_bundled_module_loads_from_the_file_alone(bare):
    folder, _, environment = bare
    modules = [
        name.removesuffix(".py").replace("/", ".")
        for name in bundled_files()
        if name.rsplit("/", 1)[1] not in ("__init__.py", "__main__.py", "rdma_end.py")
    ]
    code = (
        f"import importlib, sys; sys.path.insert(0, {str(folder / 'foretrace-agent.pyz')!r})\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_work_list_is_done_offline_and_comes_back_checked(bare):
    folder, command, environment = bare
    asked = (Request("host:chase uint8[4096]", 3), Request("copy:h2h uint8[65536]", 3))
    work = WorkList("host", asked, starts=2, most_starts=2, blocks=3, busy=1e6)
    (folder / "work.json").write_text(work.text())
    record = [*command, "--record", "work.json", "--out", "back"]
    done = subprocess.run(record, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "back").iterdir()
    found = read(path)
    assert found.driver == "host"
    assert found.ended == ""
    assert {s.start for s in found.samples} == {0, 1}
    assert {s.signature for s in found.samples} == {r.signature for r in asked}
    assert found.versions["numpy"] == numpy.__version__


def test_offline_a_driver_that_is_missing_or_not_allowed_ends_with_4(bare):
    folder, command, environment = bare
    (folder / "torch.json").write_text(
        WorkList("torch", (Request("compute:aten::mm fp32[2x2] fp32[2x2]"),)).text()
    )
    for extra, said in (
        (["--allow", "host"], "denied: this agent serves host"),
        ([], "missing: no module"),
    ):
        record = [*command, "--record", "torch.json", *extra]
        done = subprocess.run(record, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 4
        assert said in done.stderr


@pytest.mark.parametrize(("fault", "ends", "said"), [
    ({"fault": "died", "after": 4}, 4, "died: the agent ended (code 7)"), ({}, 3, "time limit"),
])  # fmt: skip
def test_offline_a_driver_of_ones_own_that_ends_early_is_not_0_and_what_it_measured_is_kept(
    bare, fault, ends, said
):
    folder, command, environment = bare
    seconds = 170.0 if fault else 1e-9
    work = WorkList("odd", (Request("host:idle", 2),), fault, busy=1e6, seconds=seconds)
    (folder / "work.json").write_text(work.text())
    record = [*command, "--load", str(ODD), "--record", "work.json", "--out", f"kept-{ends}"]
    done = subprocess.run(record, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, said in done.stderr) == (ends, True), done.stderr
    (path,) = (folder / f"kept-{ends}").iterdir()
    assert len(read(path).samples) == bool(fault)


def test_offline_a_file_that_is_no_work_list_ends_with_2(bare):
    folder, command, environment = bare
    (folder / "no.json").write_text("{}")
    done = subprocess.run([*command, "--record", "no.json"], cwd=folder, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2
    assert "no.json: is not a work list" in done.stderr


def test_the_bundle_is_reproducible_and_cached_once(tmp_path, monkeypatch):
    assert bundle_bytes() == bundle_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cached_bundle() == cached_bundle()
    assert [p.name for p in (tmp_path / "foretrace").iterdir()] == [cached_bundle().name]


def test_a_python_without_numpy_is_told_what_to_install(bare):
    folder, _, _ = bare
    command = [sys.executable, "-S", "-E", str(folder / "foretrace-agent.pyz")]
    with pytest.raises(DriverFault, match=r"^unsupported: .*no NumPy .*apt install python3-numpy"):
        RemoteDriver(start_agent_process([*command, "--stdio"]), "host")
    offline = subprocess.run([*command, "--record", "x"], capture_output=True, text=True)
    assert (offline.returncode, offline.stdout) == (4, "")
    assert offline.stderr.startswith(f"error unsupported: {sys.executable} has no NumPy")


def test_a_python_that_is_too_old_is_told_which_one_is_not(bare):
    folder, _, _ = bare
    older = (
        "import runpy, sys; sys.version_info = (3, 9, 18); "
        f"sys.argv = ['agent', '--stdio']; runpy.run_path({str(folder / 'foretrace-agent.pyz')!r})"
    )
    with pytest.raises(DriverFault, match=r"is Python 3\.9, the agent needs 3\.11 or later"):
        RemoteDriver(start_agent_process([sys.executable, "-c", older], mortal=False), "host")


def test_the_start_of_the_agent_can_be_read_by_pythons_that_cannot_run_it(bare):
    folder, _, _ = bare
    with zipfile.ZipFile(folder / "foretrace-agent.pyz") as file:
        ast.parse(file.read("__main__.py"), feature_version=(3, 6))
