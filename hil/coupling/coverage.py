"""Coverage of a sample: the devices whose time it includes.

A write of a NIC that is timed from its post to its completion crosses that NIC, the link, the
switch and the other NIC.  Whoever uses such a sample must not add a model of any of them, and
must not use it for a transfer that crosses only some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...sim.errors import ScenarioError
from ...sim.facts.system import System
from ...sim.units import Seconds

DIRECTION = re.compile(r"\.(tx|rx|h2d|d2h|to_nic|from_nic)$")
PORT = re.compile(r"^(leaf\d+)\..*$")


@dataclass(frozen=True)
class Subtraction:
    """Time of a device inside a sample, taken off for ops that do not cross that device.

    Parameters
    ----------
    time : taken off each sample
    error : of that time, plus or minus
    """

    time: Seconds
    error: Seconds


@dataclass(frozen=True)
class SampleCoverage:
    """Devices whose time a sample includes.

    Parameters
    ----------
    component : name under ``hil.swap``
    devices : their names; the fabric stands for the whole network
    subtract : time that may be taken off, by device
    """

    component: str
    devices: frozenset[str]
    subtract: Mapping[str, Subtraction] = field(default_factory=dict)

    def covers_path(self, crossed: Iterable[str], fabric: str = "") -> bool:
        """Whether a sample answers for an op that crosses these devices.

        Raises
        ------
        ScenarioError
            The path crosses only some of the devices, and no subtraction is given for the others.

        Examples
        --------
        >>> pair = SampleCoverage("node0.nic0", frozenset({"node0.nic0", "leaf0", "node1.nic0"}))
        >>> pair.covers_path(["node0.nic0", "leaf0", "node1.nic0"])
        True
        >>> pair.covers_path(["node2.nic0"])
        False
        >>> pair.covers_path(["node0.nic0", "leaf0", "node2.nic0"])
        Traceback (most recent call last):
        foretrace.sim.errors.ScenarioError: hil.swap node0.nic0: a sample contains node1.nic0, ...
        """
        path = set(crossed)
        if fabric and fabric in self.devices and fabric in path:
            return True
        if not self.devices & path:
            return False
        missing = sorted(self.devices - path - set(self.subtract))
        if missing:
            raise ScenarioError(
                f"hil.swap {self.component}: a sample contains {', '.join(missing)}, which an op "
                f"across {', '.join(sorted(path))} does not cross; swap with a device that "
                "measures this way, or say under subtract how long that part takes, with its error"
            )
        return True

    def subtraction(self, crossed: Iterable[str]) -> Subtraction:
        """Time to take off a sample for an op that crosses these devices; errors add in squares.

        >>> parts = {"node1.nic0": Subtraction(1e-6, 1e-7)}
        >>> pair = SampleCoverage("node0.nic0", frozenset({"node0.nic0", "node1.nic0"}), parts)
        >>> pair.subtraction(["node0.nic0"])
        Subtraction(time=1e-06, error=1e-07)
        """
        path = set(crossed)
        parts = [s for device, s in self.subtract.items() if device not in path]
        return Subtraction(
            sum(s.time for s in parts), sum(s.error**2 for s in parts) ** 0.5 if parts else 0.0
        )


def device_of_component(component: str) -> str:
    """Name of the device that a component is a direction or a port of.

    >>> [device_of_component(c) for c in ("node0.nic0.tx", "leaf0.node1.nic0", "node0.gpu0")]
    ['node0.nic0', 'leaf0', 'node0.gpu0']
    """
    return PORT.sub(r"\1", DIRECTION.sub("", component))


def component_numbers(system: System, name: str) -> tuple[int, ...]:
    """Numbers of the components that a name means: the component, or all parts of a device.

    Raises
    ------
    ScenarioError
        No component has that name.
    """
    if name in system.index:
        return (system.number(name),)
    found = tuple(i for i, c in enumerate(system.components) if device_of_component(c.name) == name)
    if not found:
        known = sorted({device_of_component(c.name) for c in system.components})
        raise ScenarioError(
            f"hil.swap: no component is named {name!r}; there are {', '.join(known[:24])}"
        )
    return found


def sample_coverage(
    system: System,
    component: str,
    more: Iterable[str] = (),
    subtract: Mapping[str, Subtraction] | None = None,
) -> SampleCoverage:
    """Coverage of a sample of ``component``, with the further components its driver ``covers``.

    Raises
    ------
    ScenarioError
        A name that is no component, or a subtraction of what is not in a sample.
    """
    devices = {
        device_of_component(system.components[i].name)
        for n in (component, *more)
        for i in component_numbers(system, n)
    }
    unknown = sorted(set(subtract or {}) - devices)
    if unknown:
        raise ScenarioError(
            f"hil.swap {component}: subtracts {', '.join(unknown)}, which is in no sample; a "
            f"sample contains {', '.join(sorted(devices))}"
        )
    return SampleCoverage(component, frozenset(devices), dict(subtract or {}))
