"""A fabric from what ibnetdiscover prints."""

import pytest
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.custom_graph import CustomGraph, read_links
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.errors import GraphError

PRINTED = """#
# Topology file: generated on Mon Nov 23 10:00:00 2026
#
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x7cfe90030097cd70
switchguid=0x7cfe90030097cd70(7cfe90030097cd70)
Switch\t41 "S-leaf0"\t\t# "MF0;leaf-0:MQM8700/U1" enhanced port 0 lid 5 lmc 0
[1]\t"H-a10"[1](a10) \t\t# "gpu10 mlx5_0" lid 10 4xHDR
[2]\t"H-a9"[1](a9) \t\t# "gpu9 mlx5_0" lid 11 4xHDR
[3]\t"H-b9"[1](b9) \t\t# "gpu9 mlx5_1" lid 12 2xHDR
[40]\t"S-leaf1"[40]\t\t# "MF0;leaf-1:MQM8700/U1" lid 6 4xEDR
[41]\t"H-agg"[1](agg) \t\t# "Mellanox Technologies Aggregation Node" lid 13 4xHDR

Switch\t41 "S-leaf1"\t\t# "MF0;leaf-1:MQM8700/U1" enhanced port 0 lid 6 lmc 0
[1]\t"H-b10"[1](b10) \t\t# "gpu10 mlx5_1" lid 14 4xHDR
[40]\t"S-leaf0"[40]\t\t# "MF0;leaf-0:MQM8700/U1" lid 5 4xEDR

Ca\t1 "H-a10"\t\t# "gpu10 mlx5_0"
[1](a10) \t"S-leaf0"[1]\t\t# lid 10 lmc 0 "MF0;leaf-0:MQM8700/U1" lid 5 4xHDR

Ca\t1 "H-b10"\t\t# "gpu10 mlx5_1"
[1](b10) \t"S-leaf1"[1]\t\t# lid 14 lmc 0 "MF0;leaf-1:MQM8700/U1" lid 6 4xHDR

Ca\t1 "H-a9"\t\t# "gpu9 mlx5_0"
[1](a9) \t"S-leaf0"[2]\t\t# lid 11 lmc 0 "MF0;leaf-0:MQM8700/U1" lid 5 4xHDR

Ca\t1 "H-b9"\t\t# "gpu9 mlx5_1"
[1](b9) \t"S-leaf0"[3]\t\t# lid 12 lmc 0 "MF0;leaf-0:MQM8700/U1" lid 5 2xHDR

Ca\t1 "H-agg"\t\t# "Mellanox Technologies Aggregation Node"
[1](agg) \t"S-leaf0"[41]\t\t# lid 13 lmc 0 "MF0;leaf-0:MQM8700/U1" lid 5 4xHDR
"""


def printed(folder, text=PRINTED):
    file = folder / "fabric.topo"
    file.write_text(text)
    return file


def test_every_cable_is_a_link_once_with_its_rate(tmp_path):
    found = {(r.low, r.high): r.rate for r in read_links(printed(tmp_path))}
    assert found == {
        ("node1.nic0", "leaf-0"): 25e9,
        ("node0.nic0", "leaf-0"): 25e9,
        ("node0.nic1", "leaf-0"): 12.5e9,
        ("leaf-0", "leaf-1"): 12.5e9,
        ("node1.nic1", "leaf-1"): 25e9,
    }


def test_gpus_behind_it_talk_over_its_cables(tmp_path):
    """gpu9 sorts before gpu10; from its second adapter to leaf 1 the narrow cable is crossed."""
    nic = Nic(bandwidth=25e9, latency=0.0)
    fabric = FabricSpec(
        Switch(bandwidth=25e9, latency=1e-7, ports=41), CustomGraph(file=printed(tmp_path))
    )
    system = cluster(2, NodeSpec(gpus=2, nics=2, nic=nic), fabric)
    a, b = (system.number(f"node{i}.gpu1") for i in (0, 1))
    rates = [system.components[c].rate for c in system.crossing_fractions(a, b)]
    assert min(r for r in rates if r) == 12.5e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2xHDR", "2xWDR", "speed 'WDR' is unknown; correct it to one of SDR"),
        (
            '"S-leaf1"[40]\t\t# "MF0;leaf-1:MQM8700/U1" lid 6 4xEDR',
            '"S-leaf1"',
            "is no link; give all",
        ),
    ],
)
def test_what_cannot_be_read_is_named_by_line(tmp_path, old, new, message):
    with pytest.raises(GraphError, match=message) as refused:
        list(read_links(printed(tmp_path, PRINTED.replace(old, new))))
    assert "fabric.topo: line" in str(refused.value)
