"""Drivers by name, and the rules that every one keeps."""

import pytest
from foretrace.hil.driver import DRIVERS, Driver, driver, signature_head
from foretrace.hil.driver_registry import known_drivers, make_driver
from foretrace.hil.sample import CLOCKS, METRICS, Request
from foretrace.sim.errors import DriverFault


@pytest.mark.parametrize("name", known_drivers())
def test_every_driver_follows_the_interface_rules(name):
    made = make_driver(name)
    assert made.name == name
    assert made.clock in CLOCKS
    assert made.metric in METRICS
    assert made.sharing in ("exclusive", "solo", "concurrent")
    assert all(signature_head(op) == op for op in made.ops)
    assert made.__class__.__doc__


def test_an_unknown_driver_is_missing():
    with pytest.raises(DriverFault, match="missing: no driver 'nic'; there are: collective, "):
        make_driver("nic")


def test_two_drivers_cannot_have_one_name():
    make_driver("host")
    with pytest.raises(ValueError, match="two drivers are named 'host'"):

        @driver("host")
        class Other(Driver):
            pass

    assert DRIVERS["host"].__name__ == "HostDriver"


def test_a_driver_that_does_not_say_how_is_a_mistake_of_its_writer():
    with pytest.raises(TypeError, match=r"has no probe\(\)"):
        Driver().probe()
    with pytest.raises(TypeError, match=r"has no time_op\(\); implement it"):
        Driver().timing([Request("host:sort")])
    with pytest.raises(DriverFault, match="times only one op at a time"):
        Driver().together([])


@pytest.mark.parametrize(
    "rest", [{"n": 0}, {"context": "hot"}, {"context": "after"}, {"preceding": ("a:b",)}]
)
def test_a_request_that_makes_no_sense_is_a_mistake(rest):
    with pytest.raises(ValueError, match="host:idle"):
        Request("host:idle", **rest)
