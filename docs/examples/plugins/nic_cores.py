"""Cores of a SmartNIC that run ops of their own kind: a role, a kind of op, a part, who answers."""

from collections.abc import Iterable

from foretrace import Backend, Component, Kind, Location, Ops, Role, System, Timing, backend
from foretrace.models.parts import NodePart, part
from foretrace.sim.facts.ops import require
from foretrace.sim.units import ByteRate, Seconds

CORES = Role.register("nic-cores", layer="network")
PACKETS = Kind.register("packets", role=CORES.name)


@part("dpu")
class Dpu(NodePart):
    """A SmartNIC with cores, each of which handles the packets of one message at a time.

    Parameters
    ----------
    cores : int
        Messages at once; others queue.
    latency : Seconds
        From the doorbell to the first packet.
    """

    def __init__(self, *, cores: int = 8, latency: Seconds = 0.0):
        self.cores, self.latency = cores, latency

    def components(self, name: str) -> Iterable[Component]:
        at = Location(role=CORES.name)
        yield Component(name, "dpu", slots=self.cores, latency=self.latency, location=at)


@backend("nic-cores")
class NicCores(Backend):
    """Cores that handle packets at a constant rate.

    Parameters
    ----------
    core_rate : ByteRate
        Of one core.
    """

    source = "model:nic-cores"

    def __init__(self, *, core_rate: ByteRate):
        self.core_rate = core_rate

    def open(self, system: System) -> None:
        self.latency = max(c.latency for c in system.components if c.role == CORES.name)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        require(ops, "bytes")
        return Timing.of(self.latency + ops.bytes / self.core_rate)
