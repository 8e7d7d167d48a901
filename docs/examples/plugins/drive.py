"""Example of a machine part: flash drives, and a backend that times reads from them."""

from collections.abc import Iterable

from foretrace import Backend, Component, Ops, System, Timing, backend
from foretrace.models.parts import NodePart, part
from foretrace.sim.facts.backend import Usage
from foretrace.sim.facts.ops import require
from foretrace.sim.units import ByteRate, Bytes, Seconds


@part("drive")
class Drive(NodePart):
    """Flash drive whose concurrent reads share its rate.

    Parameters
    ----------
    bandwidth : ByteRate
        Read rate.
    latency : Seconds
        Time from the call to the first byte.
    size : Bytes
        Storage size of one drive.
    """

    priced_by = "size"

    def __init__(self, *, bandwidth: ByteRate, latency: Seconds = 0.0, size: Bytes = 0.0):
        self.bandwidth, self.latency, self.size = bandwidth, latency, size

    def components(self, name: str) -> Iterable[Component]:
        yield Component(name, "drive", rate=self.bandwidth, latency=self.latency)


@backend("drive-reads")
class DriveReads(Backend):
    """Backend for DMA engines that read from the drive of their GPU."""

    source = "model:drive-reads"
    uniform = False

    def open(self, system: System) -> None:
        gpus = system.numbers
        self.drive = {system.part(g, "dma"): system.part(g, "drive") for g in gpus}

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        require(ops, "bytes")
        drives = [self.drive[engine] for engine in ops.at.component.tolist()]
        latency = [ops.at.system.components[d].latency for d in drives]
        return Timing.of(latency, ops.bytes, Usage.of([{d: 1.0} for d in drives]))
