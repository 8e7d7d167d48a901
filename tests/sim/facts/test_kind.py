"""Op kinds and roles are tables that plug-ins can extend."""

import copy
import pickle

import numpy as np
import pytest
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.kind import KINDS, OUR_KINDS, ROLES, Kind, Role, kind_names
from foretrace.sim.facts.ops import Ops
from foretrace.sim.facts.place import place, timing_component_per_op
from foretrace.sim.facts.system import Component, System


@pytest.fixture
def packets():
    """Op kind that runs on NIC cores; unregistered after the test."""
    role = Role.register("test-cores", layer="network")
    yield Kind.register("testpackets", role=role.name)
    del ROLES["test-cores"], KINDS["testpackets"]


def machine():
    parts = [Component(name, kind, slots=1) for name, kind in
             (("gpu", "gpu"), ("host", "host"), ("cores", "nic"))]  # fmt: skip
    return System(parts, ("gpu",), {"gpu": {"host": "host", "test-cores": "cores"}})


def test_a_kind_is_a_small_integer_with_a_name(packets):
    assert [*map(int, Kind)] == [*range(len(Kind))]
    assert Kind(int(packets)) is Kind["TESTPACKETS"] is packets
    assert kind_names()[packets] == "testpackets"
    assert [str(Kind.SEND), repr(Kind.SEND)] == ["3", "<Kind.SEND: 3>"]


def test_the_table_of_ops_keeps_one_byte_for_a_kind(packets):
    assert Ops.of(kind=[packets]).kind.nbytes == 1


def test_a_kind_is_the_same_object_after_pickling_and_copying(packets):
    assert pickle.loads(pickle.dumps(packets)) is packets
    assert copy.deepcopy(packets) is packets


def test_a_pickled_table_restores_its_kinds_by_name(packets):
    """A process that has seen other plug-ins before may have given it another number."""
    ops = Ops.of(kind=[Kind.COPY, packets])
    state = ops.__getstate__()
    assert pickle.loads(pickle.dumps(ops)).kind_names == ["copy", "testpackets"]
    swapped = [*OUR_KINDS[1:], OUR_KINDS[0], *state["kinds"][len(OUR_KINDS) :]]
    there = object.__new__(Ops)
    there.__setstate__({**state, "kinds": swapped})
    assert there.kind_names == ["send", "testpackets"]


def test_a_registered_kind_queues_for_the_part_of_its_role_and_asks_its_backend(packets):
    build = Builder("some")
    for kind in (packets, Kind.HOST, Kind.COPY):  # without copy engines the GPU plays their role
        build.op(kind)
    graph = place(build.graph(), machine())
    assert graph.explicit.slot.tolist() == [2, 1, 0]
    assert timing_component_per_op(graph).tolist() == [2, 1, 0]


def test_a_stream_named_after_a_role_is_run_by_it(packets):
    build = Builder("some")
    for stream in range(2):
        for kind in (Kind.COMPUTE, Kind.HOST, Kind.SEND, Kind.GAP):
            build.op(kind, stream=stream, peer=0 if kind == Kind.SEND else -1)
    build.set_stream_kind(0, 1, "test-cores")
    graph = place(build.graph(), machine())
    assert graph.explicit.slot.tolist() == [0, 1, -1, -1, 2, 2, 2, -1]
    assert timing_component_per_op(graph)[:6].tolist() == [0, 1, -1, -1, 2, 2]


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: Kind.register("copy", role="gpu"), "two kinds of op are named 'copy'"),
        (lambda: Kind.register("testpackets", role="gpu"), "two kinds of op are named"),
        (lambda: Kind.register("two-words", role="gpu"), "use only the letters a to z"),
        (lambda: Kind.register("odd", role="gpus"), "no role is named 'gpus'; register it first"),
        (lambda: Role.register("odd", layer="gpu"), "layer is 'gpu'; give one of compute"),
        (lambda: Role.register("test-cores", layer="host"), "two roles are named 'test-cores'"),
        (lambda: Kind(250), "250 is not the number of a kind of op; they are 0"),
    ],
)
def test_invalid_registrations_are_refused_and_change_nothing(packets, register, message):
    before = len(Kind), dict(ROLES)
    with pytest.raises(ValueError, match=message):
        register()
    assert (len(Kind), dict(ROLES)) == before


def test_registering_a_kind_twice_gives_the_same_kind(packets):
    assert Kind.register("testpackets", role="test-cores") is packets
    assert np.all(np.unique([*map(int, Kind)]) == np.arange(len(Kind)))
