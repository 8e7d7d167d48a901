"""A backend's constructor is its schema."""

import json
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import json_schema
from foretrace.scenarios.config.settings import backend_settings_model, known_backends
from foretrace.sim.facts.backend import BACKENDS, Backend, backend
from foretrace.sim.units import ByteRate, Seconds

TINY = """\
foretrace: 1
name: t
workload: {trace: t.json}
cluster: {nodes: 1, node: {gpu: {count: 2}}}
backends:
"""


@pytest.fixture
def toy():
    @backend("toy")
    class Toy(Backend):
        """A toy.

        Parameters
        ----------
        rate : ByteRate
            How fast.
        start, stop : Seconds
            At either end.
        table : Path or None
            Measured.
        peaks : by type
            One for each.
        sizes : list
            Of messages.
        """

        def __init__(
            self,
            *,
            rate: ByteRate,
            start: Seconds = 1e-6,
            stop: Seconds | None = None,
            table: Path | None = None,
            peaks: dict[str, ByteRate] | None = None,
            sizes: tuple[int, ...] = (),
        ):
            self.given = rate, start, stop, table, peaks, sizes

    yield Toy
    del BACKENDS["toy"]
    backend_settings_model.cache_clear()


def test_every_backend_can_be_written_in_a_file():
    for name in known_backends():
        assert isinstance(backend_settings_model(name).allowed(), tuple)


def test_names_units_and_defaults_come_from_the_signature(toy):
    said = (
        "  n: {use: toy, rate: 8 Gb/s, stop: 2 us, table: a.csv, peaks: {x: 1 GB/s}, sizes: [1, 2]}"
    )
    binding = loads(TINY + said).backends["n"]
    made = binding.make()
    assert isinstance(made, toy)
    assert made.given == (1e9, 1e-6, 2e-6, Path("a.csv"), {"x": 1e9}, (1, 2))


def test_help_comes_from_the_docstring(toy):
    fields = backend_settings_model("toy").model_fields
    assert fields["rate"].description == "How fast."
    assert fields["start"].description == fields["stop"].description == "At either end."


def test_what_a_part_says_need_not_be_said_of_its_backend():
    gpu = TINY.replace("count: 2", "count: 2, bandwidth: 3 TB/s")
    assert loads(gpu + "  node*.gpu*: roofline").backends["node*.gpu*"].settings == {}
    with pytest.raises(InvalidScenarioError) as caught:
        loads(TINY + "  node*.gpu*: roofline")
    assert str(caught.value).startswith(
        "error 'bandwidth' is missing; write it here or in cluster.node.gpu\n"
        "  <text>:6:3  backends.node*.gpu*.bandwidth"
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{use: toy}", "'rate' is missing\n  <text>:6:7  backends.n.rate"),
        ("{rate: 1 GB/s}", "'use' is missing; write use: NAME, the name of the backend"),
        ("{use: toy, rate: 5}", "'5' has no unit; write for example '5 Gb/s'"),
        ("{use: toy, rate: 5 s}", "'5 s' is not a rate of data; write it like '400 Gb/s'"),
        ("{use: toy, rate: 1 B/s, strt: 1 s}", "n has no setting 'strt'; did you mean 'start'?"),
        ("{use: toy, rate: 1 B/s, peaks: {x: 1 s}}", "'1 s' is not a rate of data"),
        ("{use: toy, rate: 1 B/s, sizes: 3}", "'3' is not a list; write it like [a, b]"),
        ("7", "a backend needs a name; write it like {use: NAME, …}"),
        ("tyo", "no backend named 'tyo'; did you mean 'toy'?"),
    ],
)
def test_what_the_constructor_does_not_take_is_refused(toy, said, message):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(TINY + f"  n: {said}")
    assert message in str(caught.value)


def test_the_json_schema_has_what_the_loader_checks():
    schema = json_schema()
    fabric = schema["$defs"]["FabricSection"]
    assert fabric["additionalProperties"] is False
    names = fabric["properties"]["topology"]["anyOf"][0]["enum"]
    assert names == ["dragonfly", "fat-tree", "graph", "rail", "torus"]
    nic = schema["$defs"]["nic_part"]["properties"]
    assert "400 Gb/s" in json.dumps(nic["bandwidth"])
    assert nic["latency"]["description"].startswith("Time to cross the NIC once")


def test_the_json_schema_explains_every_key_at_the_top():
    schema = json_schema()
    for key, found in schema["properties"].items():
        inner = found.get("$ref") or next(
            (a["$ref"] for a in found.get("anyOf", ()) if "$ref" in a), ""
        )
        described = schema["$defs"].get(inner.rpartition("/")[2], found)
        assert found.get("description") or described.get("description"), key
