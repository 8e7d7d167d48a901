"""What one setting takes in a sweep."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.parameters import Range, read_vary
from foretrace.scenarios.config.problems import InvalidScenarioError


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ([1, 2, 4], (1, 2, 4)),
        (["a", "b"], ("a", "b")),
        ({"from": 8, "to": 32, "step": 8}, (8, 16, 24, 32)),
        ({"from": "100 Gb/s", "to": "300 Gb/s", "step": "100 Gb/s"},
         ("100 Gb/s", "200 Gb/s", "300 Gb/s")),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, (0.1, 0.2, 0.3)),
        ({"from": "1 us", "to": "100 us", "log": 3}, ("1 us", "10 us", "100 us")),
        ({"from": "1.5 GB", "to": "2.5 GB", "step": "0.5 GB"}, ("1.5 GB", "2 GB", "2.5 GB")),
    ],
)  # fmt: skip
def test_values_are_exact_and_written_as_the_user_writes(said, values):
    assert read_vary(said).values == values


def test_a_range_without_steps_holds_both_ends():
    found = read_vary({"from": "1 Gb/s", "to": "4 Gb/s"})
    assert isinstance(found, Range)
    assert (found.value_at(0.0), found.value_at(0.5), found.value_at(1.0)) == (
        "1 Gb/s",
        "2.5 Gb/s",
        "4 Gb/s",
    )


def test_equal_factors_are_equally_likely_in_a_logarithmic_range():
    found = read_vary({"from": 1, "to": 10000, "log": True})
    assert [found.value_at(share) for share in (0.0, 0.25, 0.5, 1.0)] == [1, 10, 100, 10000]


SWEEP = "sweep:\n  {method}vary:\n    {path}: {said}\n"


@pytest.mark.parametrize(
    ("path", "said", "message"),
    [
        ("cluster.nodes", "[]", "the list of values is empty; write at least one"),
        ("cluster.nodes", "8", "'8' is not a list of values; write it like [1, 2, 4] or {from: "
                               "1, to: 4}"),
        ("cluster.nodes, cluster.node.nic.count", "[[2, 1], [4, 1, 1]]",
         "[4, 1, 1] has 3 values for 2 settings; write one for each"),
        ("cluster.nodes", "[2, 2]", "'2' is in the list twice; keep one of them"),
        ("cluster.nodes", "{from: 4, to: 2}", "'2' is not above '4'"),
        ("cluster.nodes", "{from: 4}", "'to' is missing"),
        ("cluster.nodes", "{from: 4, to: 8, stp: 2}", "unknown key 'stp'; did you mean 'step'?"),
        ("cluster.nodes", "{from: 1, to: 8, step: 2}", "steps of '2' do not reach '8'; write to: "
                                                       "'"),
        ("cluster.nodes", "{from: 1, to: 8, step: 1, log: 3}", "'step' and 'log' exclude each"),
        ("cluster.nodes", "{from: 0, to: 8, log: 3}", "'0' is not above 0; write a positive value "
                                                      "for 'log'"),
        (
            "cluster.nodes",
            "{from: 1, to: 8}",
            "a grid needs single values of 'cluster.nodes', not a range; write",
        ),
        ("cluster.nodes", "[16, 0]", "'0' must be at least 1"),
        ("cluster.noeds", "[16]", "'cluster.noeds' is not a setting; did you mean 'cluster.nodes'"),
        ("cluster.node.nic.bandwidth", "[1 Gb/s, 1 s]", "'1 s' is not a rate of data"),
        ("cluster.node.nic.bandwidth", "{from: 1 Gb/s, to: 2 GB/s, step: 1}", "different units"),
        ("cluster.node.nic.bandwidth", "{from: 1 s, to: 2 s, step: 1 s}", "'1 s' is not a rate"),
        ("cluster.node.gpu.model", "[test-gpu-81g]", "no gpu model named 'test-gpu-81g'; did you"),
    ],
)  # fmt: skip
def test_what_a_setting_cannot_take_is_told_with_its_place(scenario, whole, path, said, message):
    text = whole + SWEEP.format(method="", path=path, said=said)
    with pytest.raises(InvalidScenarioError) as caught:
        scenario(text)
    problem = caught.value.problems[0]
    assert message in problem.message
    line = whole.count("\n") + 3
    assert problem.spot.line in (line, line - 1)  # the setting, or the sweep as a whole
    assert problem.spot.path.startswith("sweep")


@pytest.mark.parametrize("value", ["16", "1.5"])
def test_the_middle_of_a_range_must_be_possible_too(scenario, whole, value):
    said = SWEEP.format(method="method: random\n  ", path="cluster.nodes",
                        said=f"{{from: 1, to: {value}}}")  # fmt: skip
    with pytest.raises(InvalidScenarioError, match="is not a whole number"):
        scenario(whole + said)


def test_settings_with_commas_between_take_the_same_value(scenario, whole):
    paths = "cluster.nodes, workload.scale_to.parallel.data"
    sweep = scenario(whole + SWEEP.format(method="", path=paths, said="[4, 8]")).section("sweep")
    assert sweep.size == 2


def test_a_grid_that_is_larger_than_it_may_be_is_refused(scenario, whole):
    said = "sweep:\n  points: 3\n  vary: {cluster.nodes: [1, 2, 3, 4]}\n"
    with pytest.raises(InvalidScenarioError, match="the grid has 4 points, more than 3"):
        scenario(whole + said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{minimize: iteraton_time.p50}", "did you mean 'iteration_time.p50'"),
        ("{minimize: iteration_time}", "has many values"),
        ("{}", "an objective needs one metric"),
        ("{minimize: makespan, maximize: tokens_per_second.p50}", "an objective needs one metric"),
        ("{minimise: makespan}", "unknown key 'minimise'; did you mean 'minimize'"),
    ],
)
def test_an_objective_names_one_metric(scenario, whole, said, message):
    text = whole + f"sweep:\n  vary: {{cluster.nodes: [1, 2]}}\n  optimize: [{said}]\n"
    with pytest.raises(InvalidScenarioError, match=r"objective|metric|values|unknown") as caught:
        scenario(text)
    assert message in str(caught.value)


def test_a_scenario_without_a_sweep_has_none(whole, catalog):
    assert loads(whole, catalogs=[catalog]).section("sweep") is None
