"""Example of SmartNIC cores with their own kind of op: a role, a kind, a part and a backend."""

from collections.abc import Iterable

from foretrace import Backend, Component, Kind, Location, Ops, Role, System, Timing, backend
from foretrace.models.parts import NodePart, part
from foretrace.sim.facts.ops import require
from foretrace.sim.units import ByteRate, Seconds

CORES = Role.register("nic-cores", layer="network")
PACKETS = Kind.register("packets", role=CORES.name)


@part("dpu")
class Dpu(NodePart):
    """SmartNIC with cores; each core handles the packets of one message at a time.

    Parameters
    ----------
    cores : int
        Number of messages handled at once; others queue.
    latency : Seconds
        Time from the doorbell to the first packet.
    """

    def __init__(self, *, cores: int = 8, latency: Seconds = 0.0):
        self.cores, self.latency = cores, latency

    def components(self, name: str) -> Iterable[Component]:
        at = Location(role=CORES.name)
        yield Component(name, "dpu", slots=self.cores, latency=self.latency, location=at)


@backend("nic-cores")
class NicCores(Backend):
    """Backend for NIC cores that handle packets at a constant rate.

    Parameters
    ----------
    core_rate : ByteRate
        Packet rate of one core, in bytes per second.
    """

    source = "model:nic-cores"

    def __init__(self, *, core_rate: ByteRate):
        self.core_rate = core_rate

    def open(self, system: System) -> None:
        self.latency = max(c.latency for c in system.components if c.role == CORES.name)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        require(ops, "bytes")
        return Timing.of(self.latency + ops.bytes / self.core_rate)
