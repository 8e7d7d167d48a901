"""The gloo backend in a scenario: all-reduce times of ranks over links."""

from pathlib import Path

import foretrace
import pytest
from foretrace.models.network.collective.collectives import Fabric
from foretrace.plugins.gloo.fabric import Gloo
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.variants import build_variant
from foretrace.sim.errors import ForetraceError

SCENARIO = """
foretrace: 1
name: gloo
workload:
  type: transfers
  ops:
    - {{op: "collective:all-reduce", bytes: {size} B, from: {ranks}, {times}}}
cluster:
  nodes: {n}
  node: {{gpu: {{count: 1, streams: 1}}, nic: lab-port}}
  fabric: {{switch: lab-port, library: {library}}}
backends: {backends}
"""


def told(n, size, *, library="gloo-lab", backends="{}", count=1, ranks=None):
    return SCENARIO.format(
        n=n, size=size, library=library, backends=backends,
        times=f"count: {count}, at_once: {count}", ranks=list(range(n)) if ranks is None else ranks,
    )  # fmt: skip


def seconds(*args, **kw):
    return build_variant(loads(told(*args, **kw))).run().makespan


def test_the_gloo_backend_by_name_gives_the_same_times():
    named = "{fabric: {use: gloo, message: 2.304 us, processors: 1}}"
    assert seconds(4, 1 << 20, library="gloo", backends=named) == seconds(4, 1 << 20)


def bound(**settings):
    """Backend of a fabric whose library provides some settings."""
    named = ", ".join(f"{key}: {value}" for key, value in settings.items())
    scenario = loads(told(2, 1 << 20, library=f"{{{named}}}"))
    return build_variant(scenario).simulation.backends["fabric"]


def test_a_library_that_gives_the_cost_of_a_message_is_bound_to_it():
    made = bound(message="3 us", processors=1)
    assert isinstance(made, Gloo)
    assert (made.message, made.processors) == (3e-6, 1)
    assert type(bound(simple="{efficiency: 0.9}")) is Fabric


def test_no_other_product_file_names_it():
    root = Path(foretrace.__file__).parent
    folders = ("sim", "models", "hil", "traces", "scenarios", "reports")
    files = [file for folder in folders for file in (root / folder).rglob("*.py")]
    assert len(files) > 500
    named = ("plugins.gloo", "plugins import gloo", "import Gloo")
    assert not [f for f in files for text in [f.read_text()] if any(n in text for n in named)]


def test_two_at_once_share_their_links():
    assert seconds(4, 1 << 20, count=2) == pytest.approx(2 * seconds(4, 1 << 20))


def test_ranks_that_share_a_port_are_refused():
    text = told(2, 1 << 20, ranks=[0, 1, 2, 3]).replace("gpu: {count: 1,", "gpu: {count: 2,")
    with pytest.raises(ForetraceError, match="4 members share a port"):
        build_variant(loads(text)).run()


@pytest.mark.parametrize("ranks", [[1], [1, 1]])
def test_a_collective_of_one_is_refused(ranks):
    with pytest.raises(ForetraceError, match="name two or more different ranks"):
        build_variant(loads(told(2, 1 << 20, ranks=ranks)))
