"""Example of a topology: parallel switch planes with every NIC on each; data is sprayed."""

from collections.abc import Iterable, Sequence

from foretrace import Component
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.wiring import Adapter, Path, Topology, topology
from foretrace.sim.errors import GraphError


@topology("planes")
class Planes(Topology):
    """Topology of parallel planes, each with one switch that has a port for every NIC.

    Parameters
    ----------
    planes : int
        Number of planes.
    """

    def __init__(self, *, planes: int = 2):
        self.planes = planes

    def components(self, adapters: Sequence[Adapter], switch: Switch | None) -> Iterable[Component]:
        if switch is None or len(adapters) > switch.ports:
            ports = switch.ports if switch else 0
            raise GraphError(
                "cluster.fabric.switch",
                f"{len(adapters)} NICs, but a switch has {ports} ports; use a larger switch",
            )
        for plane in range(self.planes):
            for adapter in adapters:
                yield switch.component(f"plane{plane}.{adapter.name}")

    def routes(self, a: Adapter, b: Adapter) -> Sequence[Path]:
        return [Path((f"plane{plane}.{b.name}",)) for plane in range(self.planes)]

    def switches(self) -> int:
        return self.planes
