"""The folder that records a GPU: what it asks for, what it sets aside, and that it goes on."""

import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import foretrace
import pytest
from foretrace.hil.drivers.torch_device import TorchDriver
from foretrace.hil.measuring.work_list import WorkList, touched_bytes
from foretrace.models.compute.demand import FAMILIES, family
from foretrace.sim.signature import parse_signature

sys.path.insert(0, str(Path(foretrace.__file__).parent / "tools"))  # no part of the package
shapes = pytest.importorskip("_gpu_shapes")
from record_gpu import planned, works  # noqa: E402  there where the one above is

LISTS, listed = shapes.LISTS, shapes.listed
OF_CPUS = {"im2col convolution", "im2col convolution backward"}
HELD = 1e10  # B of operands that a driver keeps until it is closed: fits a GPU of 16 GB
ASIDE = "71a93bd639041cf2"  # sha256 of all that is set aside, its first digits


@pytest.mark.parametrize("name", LISTS)
def test_the_driver_does_all_that_a_list_asks_for_and_it_fits_a_small_gpu(name):
    shown, kept = listed(name)
    driver = TorchDriver()
    assert [s for s in shown + kept if not driver.answers(s)] == []
    assert sum(parse_signature(s).bytes for s in shown) < HELD
    assert not set(shown) & set(kept)


def test_every_family_of_a_gpu_is_recorded_and_some_of_each_list_is_set_aside():
    found = Counter(family(s) for name in LISTS for part in listed(name) for s in part)
    assert set(FAMILIES) - OF_CPUS <= set(found)
    assert min(found[f] for f in set(FAMILIES) - OF_CPUS) >= 20
    assert min(len(listed(name)[1]) for name in LISTS) >= 4


def test_what_is_set_aside_is_so_for_good():
    every = sorted(s for name in LISTS for s in listed(name)[1])
    assert sha256("\n".join(every).encode()).hexdigest()[:16] == ASIDE


def test_a_batch_of_every_list_is_one_that_measuring_allows():
    for work in works("cuda:0").values():
        assert max(touched_bytes(r) for r in work.requests) <= work.bytes


AGENT = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
work = pathlib.Path(sys.argv[sys.argv.index("--record") + 1])
with open("asked", "a") as asked:
    asked.write(work.stem + "\\n")
if work.stem == "images" and not pathlib.Path("mended").exists():
    sys.exit(4)
out.mkdir(parents=True)
(out / "one.rec.gz").touch()
"""


def test_it_goes_on_where_it_was_stopped(tmp_path):
    planned(tmp_path, "cuda:0")
    plans = {p.stem for p in tmp_path.glob("*.json")}
    assert {WorkList.read(p).spec["device"] for p in tmp_path.glob("*.json")} == {"cuda:0"}
    (tmp_path / "foretrace-agent.pyz").write_text(AGENT)
    run = ["sh", str(tmp_path / "run.sh")]
    environment = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    assert subprocess.run(run, env=environment).returncode == 1
    asked = tmp_path / "asked"
    assert set(asked.read_text().split()) == plans
    assert {p.name for p in (tmp_path / "kept").iterdir()} == plans - {"images"}
    asked.unlink()
    (tmp_path / "mended").touch()
    assert subprocess.run(run, env=environment).returncode == 0
    assert asked.read_text().split() == ["images"]
    assert {p.name for p in (tmp_path / "kept").iterdir()} == plans
