"""Hardware facts: where they are read from, and what each must say of itself."""

import pytest
from foretrace.scenarios.config.catalog import OURS, installed
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.part_specs import KINDS, entry_model
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading.tree import leaf_nodes, to_dict

VALUE = "{value: 1 TB/s, source: {kind: assumed, where: here}}"
TINY = "{foretrace: 1, name: t, workload: {trace: t}, cluster: {nodes: 1, node: {gpu: {model: x}}}}"


@pytest.fixture
def folder(tmp_path):
    def write(text):
        (tmp_path / "x.yaml").write_text(text)
        return str(tmp_path)

    return write


def bundled():
    catalog = installed()
    return [(kind, name) for kind in KINDS for name in catalog.names(kind)]


@pytest.mark.parametrize(("kind", "name"), bundled(), ids=lambda v: v)
def test_every_bundled_part_fits_the_settings_of_its_kind(kind, name):
    entry = installed().entry(kind, name)
    entry_model(kind).model_validate(to_dict(entry))
    assert all(leaf.source is not None for _, leaf in leaf_nodes(entry))


def test_every_bundled_file_is_read():
    assert list(OURS.glob("*.yml")) == []
    assert len(bundled()) >= len(list(OURS.glob("*.yaml"))) > 0


def test_a_directory_of_ones_own_wins(folder):
    ours = installed().names("gpu")[0]
    where = folder(f"gpu: {{{ours}: {{bandwidth: {VALUE}}}}}")
    entry = installed([where]).entry("gpu", ours)
    assert to_dict(entry) == {"bandwidth": "1 TB/s"}
    assert entry["bandwidth"].source.kind == "assumed"


def test_a_directory_can_come_from_the_environment(folder, monkeypatch):
    where = folder(f"gpu: {{x: {{bandwidth: {VALUE}}}}}")
    with pytest.raises(InvalidScenarioError, match="no gpu model named 'x'"):
        loads(TINY)
    monkeypatch.setenv("FORETRACE_CATALOG", where)
    assert loads(TINY).cluster.node.gpu.settings == {"bandwidth": 1e12}


def test_a_directory_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv("FORETRACE_CATALOG", "nowhere")
    with pytest.raises(
        InvalidScenarioError,
        match="no catalog directory 'nowhere'; create it, or correct --catalog or ",
    ):
        loads(TINY)


def test_a_scenario_can_have_parts_of_its_own():
    own = f"catalog: {{gpu: {{x: {{bandwidth: {VALUE}}}}}}}"
    s = loads(TINY[:-1] + f", {own}}}")
    assert s.cluster.node.gpu.settings == {"bandwidth": 1e12}
    assert s.origins["cluster.node.gpu.bandwidth"].layer == "catalog"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu: {x: {bandwidth: 1 TB/s}}", "'bandwidth' has no source; write {value: …, source:"),
        (f"gppu: {{x: {{bandwidth: {VALUE}}}}}", "no kind of part is named 'gppu'; did you mean"),
        ("gpu: {x: 5}", "not a part; write it like {NAME: {bandwidth: {value: …, source: …}}}"),
        (f"gpu: {{x: {{bandwith: {VALUE}}}}}", "unknown key 'bandwith'; did you mean 'bandwidth'"),
        (
            f"gpu: {{x: {{memory: {VALUE}}}}}",
            "'1 TB/s' is not an amount of data; write it like '76 GB'",
        ),
        (
            "gpu: {x: {bandwidth: {value: 1 TB/s, source: {kind: guess}}}}",
            "the source has no known kind; write one of: measured, fitted, datasheet, assumed",
        ),
        (
            "gpu: {x: {bandwidth: {value: 1 TB/s, source: {kind: assumed, who: me}}}}",
            "unknown key 'who' in a source; known here: kind, where, date, error, note, program",
        ),
        (
            "gpu: {x: {bandwidth: {value: 1 TB/s, source: {kind: fitted, error: held out 4 %}}}}",
            "'held out 4 %' is not an error in %; write it like '4 %', text under 'note'",
        ),
    ],
)
def test_a_bad_part_is_told_at_its_place_in_the_catalog(folder, text, said):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(TINY, catalogs=[folder(text)])
    assert said in str(caught.value)
    assert "x.yaml:1:" in str(caught.value)


def test_files_are_read_only_when_something_in_them_is_asked_for(folder):
    where = folder("gpu: {y: {bandwidth: [}}")
    ours = installed().names("gpu")[0]
    assert loads(TINY.replace("model: x", f"model: {ours}"), catalogs=[where]).cluster.nodes == 1
