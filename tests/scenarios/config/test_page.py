"""The page about scenario files says what is so."""

import re
from pathlib import Path

import foretrace
import pytest
from foretrace.scenarios.config.loader import loads

PAGE = Path(foretrace.__file__).parent / "docs" / "scenario.md"
TEXT = PAGE.read_text()


def test_its_scenario_is_right():
    text, *_ = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S)
    s = loads(text, file="page.yaml")
    assert [v.variant for v in s.variants()] == ["base", "eight", "fast-network", "straggler"]
    assert s.variants()[2].cluster.nodes == 8
    assert s.variants()[2].cluster.node.nic.settings["bandwidth"] == 5e9
    assert s.warnings == ()


def test_the_scenario_of_the_readme_is_right():
    readme = (PAGE.parent.parent / "README.md").read_text()
    (text,) = re.findall(r"^```yaml mine.yaml\n(.*?)^```$", readme, re.M | re.S)
    s = loads(text, file="mine.yaml")
    assert s.cluster.node.nic.settings["bandwidth"] == 2.5e9
    assert [v.variant for v in s.variants()] == ["base"]


def test_its_message_is_what_is_said(edited):
    said = edited("bandwidth: 450 GB/s", "bandwidth: 450 GB").splitlines()[0]
    assert said in TEXT


@pytest.mark.parametrize("written", ["200 Gb/s", "25 GB/s", "80 GiB", "2.1 us", "2.10 USD/hour"])
def test_its_quantities_can_be_read(written):
    from foretrace.sim.units import UNITS, quantity

    assert f"`{written}`" in TEXT
    fitting = []
    for unit in UNITS:
        try:
            fitting.append(quantity(written, unit) > 0)
        except ValueError:
            continue
    assert fitting == [True]
