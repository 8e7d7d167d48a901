"""Wrong numbers in verbs and constructors: one named error each, equal on both engines."""

import numpy as np
import pytest
from by_day import every, tonight
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.facts.component import Component
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.run.simulation import Simulation
from wrong_numbers import INF, NAN, SYSTEM, VERBS, OnWire, PerFlop, graph, outcome

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
A_DAY, A_NIGHT = 200, 20_000


@ENGINES
@pytest.mark.parametrize(
    ("verb", "value", "error", "said"),
    [
        ("wait", NAN, SimulationError, "process: time to wait is nan; give a finite number, 0 s"),
        ("wait", INF, SimulationError, "time to wait is inf"),
        ("wait", "1 s", SimulationError, "time to wait is '1 s'"),
        ("wait", 1e300, Exception, r"1e\+300 s is outside the 106.8 days .* use a coarser tick"),
        ("submit rank", -1, SimulationError, "process: rank is -1; give a whole number between 0"),
        ("submit rank", 2**40, SimulationError, "rank is 1099511627776"),
        ("prepare rank", 0.5, SimulationError, "rank is 0.5"),
        ("submit key", "a", SimulationError, "key is 'a'; give a whole number of 64 bits"),
        ("key", 0.5, SimulationError, "key is 0.5"),
        ("key", 2**70, SimulationError, "key is 1180591620717411303424"),
        ("row", 0.5, GraphError, "<Prepared 'g' 4 ops>: row is 0.5; give a whole number"),
        ("row", -1, GraphError, "op -1 does not exist; ops are 0 to 3"),
        ("row", NAN, GraphError, "row is nan"),
        ("flop", None, GraphError, "op 0: value is None; give a number >= 0"),
        ("bytes", "a", GraphError, "values is 'a'; give numbers"),
        ("way", 0.5, GraphError, "way 0.5 does not exist; ways are 0 to 0"),
        ("emit", NAN, SimulationError, "process: value of the metric 'm' is nan; give a finite"),
        ("emit", None, SimulationError, "value of the metric 'm' is None"),
        ("emit_many", INF, SimulationError, "value of the metric 'n' is inf"),
        ("emit name", 3, SimulationError, "metric is 3; give a name"),
        ("record", NAN, SimulationError, "value of the series 'r' is nan"),
        ("count", NAN, SimulationError, "what is added to the counter 'c' is nan; give a whole"),
        ("acquire", 0.5, SimulationError, "kv: amount is 0.5"),
        ("acquire owner", "a", SimulationError, "owner is 'a'"),
        ("release_all", NAN, SimulationError, "owner is nan"),
        ("set_rate", NAN, SimulationError, "wire: rate is nan; give a finite number"),
        ("set_rate", "a", SimulationError, "wire: rate is 'a'"),
        ("fail", 3, SimulationError, "process: name is 3; give a name"),
        ("queue", None, GraphError, "None is not the name of a component; give a text"),
        ("stop", 0.5, GraphError, "op 0.5 does not exist; ops are 0 to 3"),
        ("ended", NAN, GraphError, "op nan does not exist"),
        ("state", -1, GraphError, "op -1 does not exist"),
        ("cancel", None, GraphError, "process: what is cancelled is None; give a whole number"),
        ("cancel", 0.5, GraphError, "what is cancelled is 0.5"),
        ("lost", None, SimulationError, r"graph is None; give what submit\(\) returned"),
        ("resume", NAN, GraphError, "process: op is nan; give a whole number between 0 and 3"),
        ("all slots", 1, SimulationError, "slots is 1; give a list of names"),
        ("weight", NAN, SimulationError, "weight on wire is nan"),
        ("usage", 7, SimulationError, "usage is 7; give a mapping from a component to a weight"),
        ("keep", 2, SimulationError, "keep is 2; give True or False"),
        ("at_least", 0.5, SimulationError, "gpu0: at_least is 0.5; give a whole number"),
        ("at_most", "a", SimulationError, "gpu0: at_most is 'a'"),
        ("until", INF, ValueError, "until is inf; give a finite number, 0 s or more, or None"),
        ("until", -1, ValueError, "until is -1"),
        ("until", "a", ValueError, "until is 'a'"),
        ("replica", -1, ValueError, "replica is -1; give a whole number, 0 or more"),
        ("seed", 0.5, ValueError, "seed is 0.5; give a whole number, 0 or more"),
        ("seed", 2**70, ValueError, "seed is 1180591620717411303424"),
        ("memory", NAN, ValueError, "memory is nan; give a finite number, 0 B or more"),
        ("memory", "1 GB", ValueError, "memory is '1 GB'"),
        ("tick", NAN, ValueError, "tick is nan"),
        ("arrives", INF, ValueError, "job 'job': arrives is inf"),
        ("launch", None, ValueError, "name of a job is None; give a name"),
        ("request", 0.5, SimulationError, "allocator: 0.5 components requested"),
        ("renamed", NAN, ValueError, "other: max_rate is nan"),
        ("renamed", 1.0, ValueError, "other: max_rate is 1, and its rate 1e"),
        ("op peer", -7, GraphError, "'w' op 0: peer is -7; give a whole number between -1 and"),
        ("op rank", 2**40, GraphError, "'w' op 0: rank is 1099511627776"),
        ("op kind", 99, GraphError, "'w' op 0: kind is 99; give a whole number between 0 and"),
        ("op kind", 0.5, GraphError, "kind is 0.5"),
        ("op stream", 2**40, GraphError, "stream is 1099511627776"),
        ("op flop", -1, GraphError, "flop is -1; give a finite number, 0 or more, or NaN"),
        ("op duration", INF, GraphError, "duration is inf"),
        ("op release", NAN, GraphError, "release is nan; give a finite number, 0 s or more"),
        ("op after", 3, GraphError, "after is 3; give a list of rows"),
        ("collective rank", 2**40, GraphError, "'c' op 0: rank is 1099511627776"),
        ("collective after", NAN, GraphError, "after is nan; give a list of rows"),
        ("answer fixed", "a", BackendError, "timing: fixed is 'a'; give numbers"),
        ("online fixed", NAN, BackendError, "gpu0: fixed of op 0 .compute. is nan"),
        ("online held", 77, BackendError, "gpu0: holds names component 77; the system has compo"),
        ("answer held", 77, BackendError, "gpu0: holds names component 77"),
        ("answer held", 2**40, BackendError, "holds: component is 1099511627776"),
        ("online component", 77, BackendError, "gpu0: usage names component 77"),
        ("online component", 0.5, BackendError, "usage: component is 0.5; give whole numbers"),
        ("online weight", NAN, BackendError, "gpu0: a usage weight is not above 0"),
    ],
)
def test_a_wrong_number_is_named_with_its_place_and_cure(engine, verb, value, error, said):
    def process(sim):
        sim.submit(graph())
        yield sim.wait(1e-4)
        VERBS[verb](sim, value)

    with pytest.raises(error, match=said):
        Simulation(SYSTEM, {"gpu*": PerFlop(), "fabric": OnWire()}, engine=engine).run(
            None, process
        )


@pytest.mark.parametrize("seeds", every(A_NIGHT // A_DAY, [*range(A_NIGHT // A_DAY)]))
def test_programs_with_wrong_numbers_are_refused_alike(seeds):
    """One part by day; a fifth of all programs each night."""
    part = range(seeds * A_DAY, (seeds + 1) * A_DAY)
    for seed in part if not seeds else tonight(part):
        calls, expected = outcome("reference", seed)
        assert outcome("core", seed)[1] == expected, (seed, calls)


def test_columns_of_ops_refuse_what_does_not_fit():
    for column, value in (("rank", [2**40]), ("rank", [0.5]), ("flop", ["a"]), ("period", [NAN])):
        with pytest.raises(TypeError, match=f"column '{column}' is .*; give "):
            Ops.of(**{column: value})


def test_a_component_takes_numbers_in_their_range_only():
    for key, value in (("slots", 0.5), ("rate", "a"), ("latency", NAN), ("limit", 0.0)):
        base = {} if key == "slots" else {"rate": 1.0}
        with pytest.raises(ValueError, match=f"c: {key} is .*; give "):
            Component("c", "link", **base | {key: value})
    with pytest.raises(TypeError, match="c: a component has no field rat"):
        SYSTEM["wire"].renamed("c", rat=1.0)


def test_right_numbers_of_every_type_are_taken():
    build = Builder("g")
    first = build.op(Kind.COMPUTE, rank=np.int64(0), flop=np.float32(1.0), release=0)
    build.collective([Member(0, 1, (np.int32(first),)), Member(1, 1)], bytes=np.int64(8))
    assert len(build.graph()) == 2
