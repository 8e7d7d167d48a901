"""Link failures: links that go down during a run and recover; routing avoids them meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...sim.errors import GraphError, SimulationError
from ...sim.facts.system import System
from ...sim.run.process import Running, Steps, process
from ...sim.units import Duration


@process("link-failure")
class LinkFailure:
    """Process that takes links down together at one time, and brings them up again.

    Data that crosses the links stops. Once routing has noticed, the remaining data of open
    transfers, and new transfers, take other links. Transfers without another route wait until the
    links are up. After that, routes are the original ones.

    Parameters
    ----------
    links : Sequence of str
        Names or globs of links in one direction: ``["leaf*.spine1", "spine1.leaf*"]`` is a spine,
        ``[node0.nic0.tx]`` one direction of a NIC.
    at : Duration
        Simulated time of the failure.
    lasts : Duration
        Duration; by default until the end of the run, which requires another route for all traffic.
    noticed_after : Duration
        Time from the failure until routes avoid the links: a timer of the routing protocol or the
        sender.

    Examples
    --------
    >>> LinkFailure(links=["leaf0.spine1"], at=0.5, lasts=1.0).links
    ('leaf0.spine1',)
    """

    def __init__(
        self,
        *,
        links: Sequence[str],
        at: Duration,
        lasts: Duration | None = None,
        noticed_after: Duration = 0.0,
    ):
        self.links, self.at, self.lasts = tuple(links), at, lasts
        self.noticed_after = noticed_after
        self.touches = self.links

    def check(self, system: System) -> None:
        """Check, before a run, that the links exist and that traffic can avoid permanent failures.

        Raises
        ------
        SimulationError
            A check fails; the message names the component, and what to write.
        """
        names = self._names(system)
        for name in names:
            if system[name].rate is None:
                raise SimulationError(
                    "action", f"link-failure: {name} has no rate; name links, ports or NICs"
                )
        if self.lasts is not None:
            return
        try:
            system.avoiding(map(system.number, names))
        except GraphError as error:
            raise SimulationError(
                "action", f"link-failure: {error}; or say how long it lasts (lasts: 1 s)"
            ) from error

    def _names(self, system: System) -> list[str]:
        found: dict[str, None] = {}
        for glob in self.links:
            numbers = system.match(glob) or (system.number(glob),)  # error for an unknown name
            found |= dict.fromkeys(system.components[c].name for c in numbers)
        return list(found)

    def __call__(self, sim: Running) -> Steps:
        """Wait, take the links down, reroute, wait, bring them up."""
        yield sim.wait(self.at)
        rates = {name: sim.rate(name) for name in self._names(sim.system)}
        for name in rates:
            sim.set_rate(name, 0.0)
        if self.lasts is not None and self.lasts <= self.noticed_after:
            yield sim.wait(self.lasts)
            self._restore(sim, rates)
            return
        yield sim.wait(self.noticed_after)
        led = _avoidable(sim.system, rates)
        sim.route_around(led)
        if self.lasts is not None:
            yield sim.wait(self.lasts - self.noticed_after)
            self._restore(sim, rates)
            sim.route_over_again(led)

    def _restore(self, sim: Running, rates: Mapping[str, float]) -> None:
        for name, rate in rates.items():
            sim.set_rate(name, rate)


def _avoidable(system: System, names: Iterable[str]) -> list[str]:
    """Components that routing can avoid together, collected greedily in order."""
    found: list[str] = []
    for name in names:
        try:
            system.avoiding(map(system.number, [*found, name]))
        except GraphError:
            continue  # its traffic waits
        found.append(name)
    return found
