"""The lab's three scenarios, their device a recording: replayed, and driving simulated time."""

from pathlib import Path

import foretrace
import pytest
from foretrace.hil.lab.campaign_recording import KEPT
from foretrace.reports.accuracy.accuracy_page import accuracy_page
from foretrace.scenarios.config.hil_settings import parse_swap_options
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.accuracy.device_check import check_devices
from foretrace.scenarios.studies.run.run import study

DOCS = Path(foretrace.__file__).parent / "docs/lab"
WRITE = "send:rdma-write uint8[{}]"


def swapped(name, recording, mode):
    """A scenario of docs/lab with one line changed: a recording in the place of the device."""
    lines = (
        (DOCS / f"{name}.yaml").read_text().replace("mode: replay", f"mode: {mode}").splitlines()
    )
    (at,) = (i for i, line in enumerate(lines) if "- {component:" in line)
    component = lines[at].split("component: ")[1].split(",")[0]
    lines[at] = f"    - {{component: {component}, driver: recorded, recording: {recording}}}"
    return loads("\n".join(lines), file=f"{name}.yaml")


def recording(name):
    file = KEPT / f"{name}.rec.gz"
    if not file.exists():
        pytest.skip(f"NOT RECORDED: {name}; foretrace lab run {name} --out hil/recordings")
    return file


def test_a_transfer_takes_what_the_real_driver_took():
    result = study(swapped("transfer", recording("icount-verbs"), "coupled")).results["base"]
    spent = result.columns.end - result.columns.start
    names = [result.ops.signature_text(i) for i in range(len(result.ops))]
    largest = spent[names.index(WRITE.format(1 << 20))] * 1e-12
    assert largest == pytest.approx(15.47e-3, rel=0.02)


def test_the_model_of_the_transfer_is_compared_with_the_recording():
    told = check_devices(swapped("transfer", recording("icount-verbs"), "replay")).results
    rows = {row["signature"]: row for row in told["components"]["node0.nic0"]["ops"]}
    assert rows[WRITE.format(4096)]["measured"] == pytest.approx(107.4e-6, rel=0.05)
    assert abs(told["whole"]["predicted"] / told["whole"]["measured"] - 1) < 0.03


def test_incast_is_driven_by_recorded_writes_that_share():
    """A recording answers for a write alone; that two of them share the port is modelled."""
    scenario = swapped("incast", recording("timetravel-10gbit"), "coupled")
    result = study(scenario).results["base"]
    spent = (result.columns.end - result.columns.start) * 1e-12
    names = [result.ops.signature_text(i) for i in range(len(result.ops))]
    large = [s for s, name in zip(spent, names, strict=True) if name == WRITE.format(1 << 20)]
    assert large == pytest.approx([2 * 854.8e-6] * 2, rel=0.02)


def test_tiering_takes_what_the_kernel_took():
    file = recording("icount-cxl")
    result = study(swapped("tiering", file, "coupled")).results["base"]
    assert float(result.makespan) == pytest.approx(2 * 3.89e-3 + 2 * 1.13e-3, rel=0.03)


@pytest.mark.parametrize(
    ("name", "swap"),
    [
        ("incast", "fabric=recorded:foretrace:timetravel-10gbit"),
        ("transfer", "node0.nic0=recorded:foretrace:icount-verbs"),
        ("tiering", "node0.gpu0=recorded:foretrace:icount-cxl"),
    ],
)
def test_model_and_recording_are_one_setting_apart(name, swap):
    """And the real driver another: tests/hil/lab/test_lab_scenarios_live.py."""
    model = study(load(DOCS / f"{name}.yaml", set=["hil.swap=[]"])).results["base"]
    said = [*parse_swap_options([swap]), "hil.mode=coupled"]
    kept = study(load(DOCS / f"{name}.yaml", set=said)).results["base"]
    assert 0 < abs(float(model.makespan) / float(kept.makespan) - 1) < 0.05
    found = check_devices(load(DOCS / f"{name}.yaml", set=parse_swap_options([swap])))
    assert found.outcome == "pass"
    page = accuracy_page(found.results)
    assert "They do not tell" in page  # what an emulator's seconds are not
    assert page.count("A/A") > 3
    assert ("were in the memory chosen for them" in page) == (name == "tiering")
