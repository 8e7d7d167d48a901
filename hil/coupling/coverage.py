"""What a sample contains: one device, or all that lies between two of them.

A write of a NIC that is timed from its post to its completion crosses that NIC, the link, the
switch and the other NIC.  Whoever uses such a sample must not add a model of any of them, and
must not use it for a transfer that crosses only some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...sim.errors import ScenarioError
from ...sim.system import System
from ...sim.units import Seconds

DIRECTION = re.compile(r"\.(tx|rx|h2d|d2h|to_nic|from_nic)$")
PORT = re.compile(r"^(leaf\d+)\..*$")


@dataclass(frozen=True)
class Subtraction:
    """A part of a sample that an op does not cross, and how long that part takes.

    Parameters
    ----------
    time : taken off each sample
    error : of that time, either way
    """

    time: Seconds
    error: Seconds


@dataclass(frozen=True)
class SampleCoverage:
    """The devices inside a sample.

    Parameters
    ----------
    component : as it was swapped
    devices : all of them; with the fabric among them, the whole network
    subtract : by device, what may be taken off
    """

    component: str
    devices: frozenset[str]
    subtract: Mapping[str, Subtraction] = field(default_factory=dict)

    def holds(self, crossed: Iterable[str], fabric: str = "") -> bool:
        """Whether a sample answers for an op that crosses these devices.

        Raises
        ------
        ScenarioError
            Only some of what is in a sample is on the way, and nobody says what to subtract.

        Examples
        --------
        >>> pair = SampleCoverage("node0.nic0", frozenset({"node0.nic0", "leaf0", "node1.nic0"}))
        >>> pair.holds(["node0.nic0", "leaf0", "node1.nic0"]), pair.holds(["node2.nic0"])
        (True, False)
        >>> pair.holds(["node0.nic0", "leaf0", "node2.nic0"])
        Traceback (most recent call last):
        foretrace.sim.errors.ScenarioError: hil.swap node0.nic0: a sample contains node1.nic0, ...
        """
        way = set(crossed)
        if fabric and fabric in self.devices and fabric in way:
            return True
        if not self.devices & way:
            return False
        missing = sorted(self.devices - way - set(self.subtract))
        if missing:
            raise ScenarioError(
                f"hil.swap {self.component}: a sample contains {', '.join(missing)}, which an op "
                f"across {', '.join(sorted(way))} does not cross; swap with a device that measures "
                "this way, or say under subtract how long that part takes, with its error"
            )
        return True

    def off(self, crossed: Iterable[str]) -> Subtraction:
        """What is taken off a sample for an op that crosses these devices.

        >>> off = {"node1.nic0": Subtraction(1e-6, 1e-7)}
        >>> SampleCoverage("node0.nic0", frozenset({"node0.nic0", "node1.nic0"}), off).off(["node0.nic0"])
        Subtraction(time=1e-06, error=1e-07)
        """
        way = set(crossed)
        parts = [s for device, s in self.subtract.items() if device not in way]
        return Subtraction(
            sum(s.time for s in parts), sum(s.error**2 for s in parts) ** 0.5 if parts else 0.0
        )


def device(component: str) -> str:
    """The device that a component is a direction or a port of.

    >>> [device(c) for c in ("node0.nic0.tx", "leaf0.node1.nic0", "node0.gpu0")]
    ['node0.nic0', 'leaf0', 'node0.gpu0']
    """
    return PORT.sub(r"\1", DIRECTION.sub("", component))


def numbers(system: System, name: str) -> tuple[int, ...]:
    """The components that a name means: itself, or the directions and ports of a device.

    Raises
    ------
    ScenarioError
        It means none.
    """
    if name in system.index:
        return (system.number(name),)
    found = tuple(i for i, c in enumerate(system.components) if device(c.name) == name)
    if not found:
        known = sorted({device(c.name) for c in system.components})
        raise ScenarioError(
            f"hil.swap: no component is named {name!r}; there are {', '.join(known[:24])}"
        )
    return found


def cover(
    system: System,
    component: str,
    more: Iterable[str] = (),
    subtract: Mapping[str, Subtraction] | None = None,
) -> SampleCoverage:
    """What a sample of a component contains, with what its driver says is in it as well.

    Raises
    ------
    ScenarioError
        A name that is no component, or a subtraction of what is not in a sample.
    """
    held = {
        device(system.components[i].name) for n in (component, *more) for i in numbers(system, n)
    }
    strange = sorted(set(subtract or {}) - held)
    if strange:
        raise ScenarioError(
            f"hil.swap {component}: subtracts {', '.join(strange)}, which is in no sample; a "
            f"sample contains {', '.join(sorted(held))}"
        )
    return SampleCoverage(component, frozenset(held), dict(subtract or {}))
