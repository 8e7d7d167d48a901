"""The link that `docs/extending.md` shows: losses cost rate, and bound each sender."""

import numpy as np
import pytest
from foretrace.models.network.part.lossy_link import LossyLink
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation


def last_end(link: LossyLink, senders: int, size: float, engine: str) -> float:
    """Seconds until the last of some senders, all starting at once, is done."""
    gpus = tuple(Component(f"node{i}.gpu0", "gpu") for i in range(senders + 1))
    system = System((*gpus, link.component("wire")), tuple(g.name for g in gpus), fabric="wire")
    build = Builder("senders")
    for i in range(senders):
        build.op(Kind.SEND, rank=i, peer=senders, bytes=size)
    return Simulation(system, {"wire": link}, engine=engine).run(build.graph()).makespan


ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])


@ENGINES
def test_one_sender_is_bound_by_its_losses_and_not_by_the_link(engine):
    link = LossyLink(bandwidth=1e9, latency=1e-3, loss=0.015, round_trip=1e-3, mtu=1000)
    assert link.limit == pytest.approx(1e7)  # 1,000 B / 1 ms x sqrt(1.5 / 0.015) = 10
    assert last_end(link, 1, 1e7, engine) == pytest.approx(1.001)
    assert last_end(link, 20, 1e7, engine) == pytest.approx(1.001)


@ENGINES
def test_many_senders_share_what_is_left_after_sending_again(engine):
    link = LossyLink(bandwidth=1e9, latency=0.0, loss=0.2, round_trip=1e-6, mtu=1000)
    assert last_end(link, 4, 2e8, engine) == pytest.approx(1.0)  # 4 x 200 MB at 800 MB/s


@pytest.mark.parametrize("loss", [0, 1, -0.1, np.nan])
def test_a_share_that_is_none_is_refused(loss):
    with pytest.raises(BackendError, match=r"loss is .*; give a share above 0, below 1"):
        LossyLink(bandwidth=1e9, latency=0, loss=loss, round_trip=1e-5)
