"""Hosts that each have an agent of their own: what their drivers tell each other, and who fails."""

from pathlib import Path

import pytest
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.sample import Request, Sample
from foretrace.hil.sample_checks import check_samples
from foretrace.sim.errors import DriverFault

PAIRED = str(Path(__file__).with_name("paired_driver.py"))
IDLE = Request("host:idle", 3)


@pytest.fixture
def hosts():
    """Opens a driver here whose peers have agents of their own; ends all of them."""
    made = []

    def connect(driver, load=()):
        remote = RemoteDriver(
            Address(load=load).open(), driver, 60.0, lambda peer: connect(driver, load)
        )
        made.append(remote)
        return remote

    def start(driver="paired", **spec):
        remote = connect(driver, (PAIRED,) if driver == "paired" else ())
        remote.open(spec)
        return remote

    yield start
    for remote in made:
        if not remote.channel.closed:
            remote.close()


def test_a_driver_asks_the_driver_of_another_host_in_the_middle_of_an_op(hosts):
    near = hosts(peer={"agent": "b", "device": "far0"})
    (sample,) = near.timing([IDLE])
    assert sample.facts["heard"] == ["far0 does add 1", "far0 does add 2"]
    ((_, far),) = near.peers
    assert far.hello["host"] == near.hello["host"]
    assert far.channel.child.pid != near.channel.child.pid
