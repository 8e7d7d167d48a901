"""Leaf-spine network in namespaces: two leaves, several spines, equal-cost routes.

The receiver is connected to the first leaf, the senders to the second. A leaf chooses the spine of
a connection by a hash of its addresses and ports (``fib_multipath_hash_policy`` 1 of Linux).
"""

from __future__ import annotations

from pathlib import Path

from ..linux.netns import StarNetwork, inside_namespace, run_command

NET = Path("/proc/sys/net/ipv4")
FORWARDS, BY_PORTS = "ip_forward", "fib_multipath_hash_policy"


class LeafSpineNetwork(StarNetwork):
    """Leaf-spine network of two leaves; ``ports`` are the uplinks of the senders' leaf.

    Examples
    --------
    >>> leaves = LeafSpineNetwork(3, "ft0", 1500, spines=2)
    >>> leaves.switch, leaves.ports, leaves.address(1), leaves.leaf(1), leaves.leaf(3)
    ('ft0-leaf2', ('up1', 'up2'), '10.9.1.2', 'ft0-leaf1', 'ft0-leaf2')
    """

    def __init__(self, hosts: int, prefix: str, mtu: int, spines: int):
        super().__init__(hosts, prefix, mtu)
        self.spines = range(1, spines + 1)
        self.switch = f"{prefix}-leaf2"
        self.ports = tuple(f"up{k}" for k in self.spines)

    def address(self, number: int) -> str:
        """IPv4 address of a host."""
        return f"10.9.{number}.2"

    def leaf(self, number: int) -> str:
        """Namespace of a host's leaf: leaf 1 for host 1 (the receiver), leaf 2 for the senders."""
        return f"{self.prefix}-leaf{1 if number == 1 else 2}"

    def spine(self, number: int) -> str:
        """Namespace of a spine; spines are numbered from 1."""
        return f"{self.prefix}-spine{number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all namespaces of this network."""
        hosts = map(self.host, range(1, self.hosts + 1))
        return (self.leaf(1), self.leaf(2), *map(self.spine, self.spines), *hosts)

    def _create_namespaces(self) -> None:
        for name in self.names:
            run_command("ip", "netns", "add", name)
        for name in (self.leaf(1), self.leaf(2), *map(self.spine, self.spines)):
            with inside_namespace(name):
                (NET / FORWARDS).write_text("1")
                (NET / BY_PORTS).write_text("1")
        for number in range(1, self.hosts + 1):
            self._attach_to_leaf(number)
        for k in self.spines:
            for side in (1, 2):
                self._link_leaf_to_spine(side, k)
        for number in range(1, self.hosts + 1):
            self._route_to(number)

    def _attach_to_leaf(self, number: int) -> None:
        """Connect a host to its leaf and make the leaf its default route."""
        leaf, host, mtu = self.leaf(number), self.host(number), str(self.mtu)
        run_command("ip", "link", "add", "nic0", "mtu", mtu, "netns", host, "type", "veth",
             "peer", "name", f"down{number}", "mtu", mtu, "netns", leaf)  # fmt: skip
        _bring_up(leaf, f"down{number}", f"10.9.{number}.1/24")
        _bring_up(host, "nic0", f"{self.address(number)}/24")
        run_command("ip", "-n", host, "route", "add", "default", "via", f"10.9.{number}.1")

    def _link_leaf_to_spine(self, side: int, k: int) -> None:
        """Connect a leaf to a spine."""
        leaf, spine, mtu = f"{self.prefix}-leaf{side}", self.spine(k), str(self.mtu)
        run_command("ip", "link", "add", f"up{k}", "mtu", mtu, "netns", leaf, "type", "veth",
             "peer", "name", f"leaf{side}", "mtu", mtu, "netns", spine)  # fmt: skip
        _bring_up(leaf, f"up{k}", f"10.10.{16 * side + k}.1/24")
        _bring_up(spine, f"leaf{side}", f"10.10.{16 * side + k}.2/24")

    def _route_to(self, number: int) -> None:
        """Add equal-cost routes to a host over all spines, and from each spine to its leaf."""
        network, side = f"10.9.{number}.0/24", 1 if number == 1 else 2
        nexthops = [("nexthop", "via", f"10.10.{16 * (3 - side) + k}.2") for k in self.spines]
        run_command(
            "ip", "-n", f"{self.prefix}-leaf{3 - side}", "route", "add", network, *sum(nexthops, ())
        )
        for k in self.spines:
            run_command("ip", "-n", self.spine(k), "route", "add", network,
                 "via", f"10.10.{16 * side + k}.1")  # fmt: skip


def _bring_up(namespace: str, link: str, address: str) -> None:
    run_command("ip", "-n", namespace, "addr", "add", address, "dev", link)
    run_command("ip", "-n", namespace, "link", "set", link, "up")
