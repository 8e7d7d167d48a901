"""Coverage of a sample: the devices whose time the sample includes.

Example: an RDMA write, timed from its post to its completion, crosses the NIC, the link, the switch
and the peer's NIC. A model of any of these must not be added to such a sample. And the sample does
not apply to a transfer that crosses only some of them.
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
    """Time of one device inside a sample, subtracted for ops that do not cross that device.

    Parameters
    ----------
    time : subtracted from each sample, in s
    error : uncertainty of that time, plus or minus, in s
    """

    time: Seconds
    error: Seconds


@dataclass(frozen=True)
class SampleCoverage:
    """Devices whose time a sample includes.

    Parameters
    ----------
    component : name under ``hil.swap``
    devices : names of the devices; the fabric's name stands for the complete network
    subtract : time that may be subtracted, by device name
    """

    component: str
    devices: frozenset[str]
    subtract: Mapping[str, Subtraction] = field(default_factory=dict)

    def covers_path(self, crossed: Iterable[str], fabric: str = "") -> bool:
        """True if a sample covers the path of an op; False if the path crosses none of its devices.

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
                f"across {', '.join(sorted(path))} does not cross; use a device that "
                "measures the path of this op, or write under subtract the time of that part and "
                "its error"
            )
        return True

    def subtraction(self, crossed: Iterable[str]) -> Subtraction:
        """Time to subtract from a sample for an op that crosses only these devices.

        Errors of several devices add in quadrature.

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
    """Name of the device that a component belongs to, as one of its directions or ports.

    >>> [device_of_component(c) for c in ("node0.nic0.tx", "leaf0.node1.nic0", "node0.gpu0")]
    ['node0.nic0', 'leaf0', 'node0.gpu0']
    """
    return PORT.sub(r"\1", DIRECTION.sub("", component))


def component_numbers(system: System, name: str) -> tuple[int, ...]:
    """Indices of the components that a name refers to: one, or all those of a device.

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
    """Coverage of a sample of a component, including the components that its driver ``covers``.

    Parameters
    ----------
    more : names of the further components that the driver covers
    subtract : time that may be subtracted, by device name

    Raises
    ------
    ScenarioError
        A name is not a component, or a subtraction names a device that is not in the sample.
    """
    devices = {
        device_of_component(system.components[i].name)
        for n in (component, *more)
        for i in component_numbers(system, n)
    }
    unknown = sorted(set(subtract or {}) - devices)
    if unknown:
        raise ScenarioError(
            f"hil.swap {component}: subtract names {', '.join(unknown)}, but a sample contains "
            f"only {', '.join(sorted(devices))}; remove the others"
        )
    return SampleCoverage(component, frozenset(devices), dict(subtract or {}))
