"""Hardware in the loop from a scenario: swaps, recordings, clocks, checks, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_day import only
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import Sample
from foretrace.reports.accuracy.accuracy_page import accuracy_page
from foretrace.reports.accuracy.verdict import verdict_sentences
from foretrace.reports.section import SECTIONS, section
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config.hil_settings import parse_swap_options
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.accuracy.check_folder import save_check
from foretrace.scenarios.studies.accuracy.device_check import check_devices
from foretrace.scenarios.studies.accuracy.score import ErrorStatistic, accuracy_verdict
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.run.run_folder import load_summary
from foretrace.sim.errors import DriverFault, RecordingError, ScenarioError
from typer.testing import CliRunner

SCENARIO = """\
foretrace: 1
name: wires
question: How wrong is the model of the NIC?
workload:
  type: transfers
  iterations: {{measure: 2}}
  ops:
    - {{op: "send:send", bytes: 1 MB, from: [0], to: 1, count: 2, at_once: 2}}
    - {{op: "send:send", bytes: 4 kB, from: [0], to: 1, count: 4}}
    - {{op: "copy:h2h", bytes: 1 MB, from: [0, 1]}}
cluster:
  nodes: 2
  node:
    gpu: {{count: 1, streams: 1}}
    host: {{cores: 1}}
    nic: {{count: 1, bandwidth: 8 Gb/s, latency: 1 us, mtu: 4096 B, header: 0 B}}
    memory: {{bandwidth: 4 GB/s, latency: 0 s}}
backends:
  node0.gpu0: {{use: copy}}
  node1.gpu0: {{use: copy}}
hil:
  mode: {mode}
  swap:
    - {{component: node0.nic0, driver: recorded, recording: {nic}, covers: [node1.nic0]}}
{more}
{expect}
"""
SEND = "send:send uint8[{}]"
MB, KB = 1_000_000, 4_000


def recording(path, times, clock="wall", starts=4, driver="wire", flags=()):
    """Each signature with its ns; starts differ by up to 1 %."""
    samples = [
        Sample(text, np.full(3, ns * (1 + 0.01 * start / starts)), clock, start=start, flags=flags)
        for start in range(starts)
        for text, ns in times.items()
    ]
    date = "2026-01-31T12:00:00Z"
    Recording(driver, "port0", "box", date, {"kernel": "6"}, tuple(samples)).write(path)
    return path


@pytest.fixture
def nic(tmp_path):
    """A device at 0.8 GB/s where the model says 1, and 10 us where it says 6."""
    times = {SEND.format(MB): 1_250_000.0, SEND.format(KB): 10_000.0}
    return recording(tmp_path / "nic.rec.gz", times)


def test_first_uses_in_a_recording_are_not_taken_for_warm_ones(nic, tmp_path):
    """They came later in the file and took the place of the warm samples of the same op."""
    warm = check_devices(scenario(nic)).results["components"]["node0.nic0"]["ops"]
    kept = read(nic)
    first = tuple(replace(s, ns=s.ns * 3, context="cold") for s in kept.samples)
    replace(kept, samples=kept.samples + first).write(nic)
    assert check_devices(scenario(nic)).results["components"]["node0.nic0"]["ops"] == warm


def scenario(nic, mode="replay", more="", expect=""):
    return loads(SCENARIO.format(nic=nic, mode=mode, more=more, expect=expect), file="s.yaml")


def test_a_check_tells_errors_shares_and_outcomes(nic, tmp_path):
    expect = """expect:
  - that: hil.nic.time.error.max <= 50 %
  - that: hil.node0.nic0.bandwidth.error.p50 <= 1 %
  - that: hil.iteration_time.error.p50 <= 20 %"""
    found = check_devices(scenario(nic, expect=expect))
    one = found.results["components"]["node0.nic0"]
    rows = {r["signature"]: r for r in one["ops"]}
    assert rows[SEND.format(MB)]["calls"] == 4
    assert rows[SEND.format(MB)]["predicted"] == pytest.approx(1.002e-3)
    assert rows[SEND.format(MB)]["measured"] == pytest.approx(1.25e-3, rel=0.01)
    assert one["errors"]["max"]["value"] == pytest.approx(0.4, abs=0.02)  # 6 us against 10
    assert one["errors"]["bias"]["value"] < 0
    assert one["worst"]["op"] == SEND.format(KB)
    assert 0 < one["spread"] < 0.01
    assert [e["outcome"] for e in found.results["expect"]] == ["pass", "fail", "pass"]
    assert found.outcome == "fail"
    (share,) = found.results["whole"]["shares"]
    more = found.results["whole"]["measured"] - found.results["whole"]["predicted"]
    assert share["swap_in"] == share["leave_out"] == share["shapley"] == pytest.approx(more)
    folder = save_check(scenario(nic, expect=expect), found, tmp_path / "runs", "a test")
    page = (folder / "accuracy.html").read_text()
    assert "No: 2 of 3" not in page
    assert "No: 1 of 3 expectations failed" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert json.loads((folder / "accuracy.json").read_text())["name"] == "wires"
    shown = CliRunner().invoke(app, ["show", str(folder)])
    assert shown.exit_code == 0
    assert f"page {folder / 'accuracy.html'}" in shown.output
    told = CliRunner().invoke(app, ["show", str(folder), "--json"])
    assert json.loads(told.output)["name"] == "wires"
    with pytest.raises(ScenarioError, match="is a hardware check, not a run; use foretrace show"):
        load_summary(folder)
    assert read(folder / "node0.nic0.rec.gz").driver == "wire"
    before = {f.name: f.read_bytes() for f in folder.iterdir()}
    cut = replace(
        found, recordings={**found.recordings, "node9/nic0": read(folder / "node0.nic0.rec.gz")}
    )
    with pytest.raises(ScenarioError, match="cannot be written"):  # in a folder that is not there
        save_check(scenario(nic, expect=expect), cut, tmp_path / "runs", "another test")
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == before  # whole, or as it was


def test_a_section_of_the_page_with_a_mistake_is_noted_in_the_results(nic, tmp_path):
    """The command then ends with code 1; the numbers are written all the same."""

    @section("check-faulty", page="accuracy", title="Faulty")
    def faulty(checked):
        raise KeyError("of a test")

    try:
        found = check_devices(scenario(nic))
        folder = save_check(scenario(nic), found, tmp_path / "runs", "a test")
    finally:
        del SECTIONS["accuracy.check-faulty"]
    (fault,) = json.loads((folder / "accuracy.json").read_text())["unexplained"]
    assert (fault["what"], fault["kind"]) == ("section check-faulty of the page", "bug")
    assert found.results["unexplained"] == [fault]
    assert "Left out, since it failed" in (folder / "accuracy.html").read_text()


def test_a_device_is_compared_with_the_whole_chain(nic, tmp_path):
    gpu = recording(tmp_path / "gpu.rec.gz", {"copy:h2h uint8[1000000]": 1e6})
    more = f"    - {{component: node0.gpu0, driver: recorded, recording: {gpu}}}"
    told = SCENARIO.format(nic=nic, mode="replay", more=more, expect="")
    table = tmp_path / "ops.csv"
    table.write_text("signature,seconds\ncopy:h2h uint8[1000000],2e-3\n")
    both = f"node0.gpu0: {{use: [copy, {{use: table, file: {table}}}]}}"
    first = f"node0.gpu0: {{use: [{{use: table, file: {table}}}, copy]}}"
    predicted = [
        check_devices(loads(told.replace("node0.gpu0: {use: copy}", chain), file="s.yaml")).results[
            "components"
        ]["node0.gpu0"]["ops"][0]["predicted"]
        for chain in ("node0.gpu0: {use: copy}", both, first)
    ]
    assert predicted == pytest.approx([5e-4, 5e-4, 2e-3])  # read and written at 4 GB/s; the table


def test_the_bar_is_never_below_what_the_measurement_can_tell():
    assert accuracy_verdict(ErrorStatistic(0.02, (0.01, 0.03)), 0.01, 0.04) == ("pass", 0.06)
    assert accuracy_verdict(ErrorStatistic(0.02, (0.005, 0.03)), 0.01, 0.0)[0] == "unresolved"
    failing = ErrorStatistic(0.9, (0.8, 1.0))
    assert accuracy_verdict(failing, 0.15, 0.25) == ("fail", 0.3), "noise raises a bar to 30 %"
    assert accuracy_verdict(failing, 0.15, 1.0) == ("unresolved", 0.3), "and beyond decides nothing"
    assert accuracy_verdict(ErrorStatistic(0.02, None), 0.01, float("nan"))[0] == "unresolved"


def test_a_coupled_run_leaves_a_journal_that_gives_it_again(nic, tmp_path):
    one = study(scenario(nic, "coupled"))
    first = one.results["base"]
    assert first.columns.end.max() > 0
    from foretrace.hil.coupling.journal import write_journal
    from foretrace.scenarios.config.hil_settings import journal_file_name

    write_journal(tmp_path / journal_file_name("base"), one.journals["base"])
    for engine in ("core", "reference"):
        more = f"  journal: {tmp_path}\nrun: {{engine: {engine}}}"
        again = study(scenario(nic, "coupled", more))
        told, before = again.results["base"].columns, first.columns
        assert told.end.tobytes() == before.end.tobytes()
        assert again.journals == one.journals


def test_a_coupled_run_says_when_its_answers_were_recorded(nic):
    found = study(scenario(nic, "coupled")).summary.to_dict()
    sources = found["points"]["base"]["sources"]
    assert any("recorded on 2026-01-31: wire port0 on box" in s for s in sources)


def test_the_two_large_transfers_of_a_recorded_port_share_it(nic):
    result = study(scenario(nic, "coupled")).results["base"]
    sends = [i for i in range(len(result.ops)) if result.ops.signature_text(i) == SEND.format(MB)]
    spent = (result.columns.end - result.columns.start)[sends] * 1e-12
    assert spent == pytest.approx([2 * 1.25e-3] * 4, rel=0.02)


def test_a_missing_device_is_an_error_unless_its_recording_may_answer(nic):
    kept = read(nic)
    replace(kept, driver="verbs").write(nic)
    live = "{{component: node0.nic0, driver: verbs, recording: {nic}, covers: [node1.nic0]{may}}}"
    text = SCENARIO.replace(
        "{{component: node0.nic0, driver: recorded, recording: {nic}, covers: [node1.nic0]}}",
        "LIVE",
    )
    for may in ("", ", if_missing: recorded"):
        said = text.format(nic=nic, mode="coupled", more="", expect="")
        said = said.replace("LIVE", live.format(nic=nic, may=may))
        if not may:
            with pytest.raises(DriverFault, match=r"hil.swap node0.nic0: verbs: .*if_missing"):
                study(loads(said, file="s.yaml"))
        else:
            found = study(loads(said, file="s.yaml")).summary.to_dict()
            assert any("recorded on" in s for s in found["points"]["base"]["sources"])


def test_clocks_are_not_mixed_unless_it_is_a_demonstration(nic, tmp_path):
    gpu = recording(tmp_path / "gpu.rec.gz", {"copy:h2h uint8[1000000]": 2e5}, "icount")
    more = f"    - {{component: node0.gpu0, driver: recorded, recording: {gpu}}}"
    for run in (check_devices, study):
        mode = "coupled" if run is study else "replay"
        with pytest.raises(ScenarioError, match="icount"):
            run(scenario(nic, mode, more))
    shown = check_devices(scenario(nic, more=more + "\n  mixed_clocks: demonstration"))
    assert shown.results["whole"] is None
    assert set(shown.results["components"]) == {"node0.nic0", "node0.gpu0"}


def test_one_recording_has_one_clock(nic, tmp_path):
    both = read(nic)
    mixed = both.samples + tuple(
        Sample(s.signature, s.ns, "cpu", start=s.start) for s in both.samples
    )
    path = tmp_path / "mixed.rec.gz"
    Recording("wire", "port0", "box", both.date, {}, mixed).write(path)
    with pytest.raises(ScenarioError, match=r"mixes clocks \(cpu, wall\)"):
        check_devices(scenario(path))


def test_shares_of_two_components_and_their_interaction(nic, tmp_path):
    gpu = recording(tmp_path / "gpu.rec.gz", {"copy:h2h uint8[1000000]": 1e6})
    more = f"    - {{component: node0.gpu0, driver: recorded, recording: {gpu}}}"
    told = check_devices(scenario(nic, more=more)).results["whole"]
    by = {s["component"]: s for s in told["shares"]}
    total = told["measured"] - told["predicted"]
    assert sum(s["shapley"] for s in by.values()) == pytest.approx(total)
    assert sum(s["swap_in"] for s in by.values()) + told["interaction"] == pytest.approx(total)
    assert by["node0.gpu0"]["swap_in"] > 0


def test_a_recording_that_has_not_seen_the_ops_says_so(tmp_path):
    other = recording(tmp_path / "o.rec.gz", {SEND.format(17): 1e3})
    with pytest.raises(RecordingError, match=r"node0\.nic0: its recording has not seen 'send:"):
        check_devices(scenario(other))
    with pytest.raises(RecordingError, match="does not exist"):
        check_devices(scenario(tmp_path / "nothing.rec.gz"))


def test_what_was_not_measured_is_told(tmp_path):
    half = recording(tmp_path / "half.rec.gz", {SEND.format(MB): 1_250_000.0})
    nic = f"{half}, ops: {{others: model}}"
    rest = loads(SCENARIO.format(nic=nic, mode="replay", more="", expect=""))
    one = check_devices(rest).results["components"]["node0.nic0"]
    assert one["left_out"]["ops"] == 8
    assert one["left_out"]["some"] == [SEND.format(KB)]
    assert 0 < one["left_out"]["share"] < 0.1


def test_access_times_of_an_emulated_memory_are_not_judged(tmp_path):
    copied = {"copy:h2h uint8[1000000]": 1e6}
    gpu = recording(tmp_path / "c.rec.gz", copied, "icount", 2, "cxl", ("emulated",))
    text = SCENARIO.format(nic=gpu, mode="replay", more="", expect="").replace(
        "component: node0.nic0", "component: node0.gpu0"
    )
    text = text.replace(", covers: [node1.nic0]", "")
    one = check_devices(loads(text, file="s.yaml")).results["components"]["node0.gpu0"]
    assert one["emulated"]
    assert one["errors"] == {}


def test_what_the_kernel_of_an_emulated_machine_did_is_judged(tmp_path):
    """Moving pages takes the kernel its time there too; only accesses are made up."""
    recording(tmp_path / "c.rec.gz", {"copy:h2h uint8[1000000]": 1e6}, "icount", 2, "cxl")
    text = SCENARIO.format(nic=tmp_path / "c.rec.gz", mode="replay", more="", expect="").replace(
        "component: node0.nic0", "component: node0.gpu0"
    )
    one = check_devices(loads(text.replace(", covers: [node1.nic0]", ""), file="s.yaml")).results
    assert one["components"]["node0.gpu0"]["errors"]


def test_the_error_at_which_the_answer_would_flip(nic):
    expect = "expect: [{that: iteration_time.p50 <= 3 ms}]"
    (one,) = check_devices(scenario(nic, expect=expect)).results["break_even"]
    assert one["component"] == "node0.nic0"
    assert 0.1 < one["error"] < 0.35
    assert check_devices(scenario(nic)).results["break_even"] == [
        {"component": "node0.nic0", "answer": False, "error": None}
    ]


def test_drift_against_an_older_recording(nic, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    times = {SEND.format(MB): 1_000_000.0, SEND.format(KB): 10_000.0}
    recording(kept / "node0.nic0.rec.gz", times)
    found = check_devices(scenario(nic, more=f"  keep_recording: {kept}"))
    drift = found.results["components"]["node0.nic0"]["drift"]
    assert drift["worst"]["op"] == SEND.format(MB)
    assert drift["worst"]["change"] == pytest.approx(0.25, abs=0.01)


def test_validate_opens_nothing_and_names_a_driver_that_is_none(nic):
    with pytest.raises(
        InvalidScenarioError, match=r"no driver named 'verbz'; did you mean 'verbs'"
    ):
        loads(SCENARIO.format(nic=nic, mode="replay", more="", expect="").replace(
            "driver: recorded", "driver: verbz"), file="s.yaml")  # fmt: skip


def test_the_short_form_of_a_swap():
    assert parse_swap_options([]) == []
    with pytest.raises(ScenarioError, match="has no driver"):
        parse_swap_options(["node0.nic0"])
    said = SCENARIO.format(nic="x.rec.gz", mode="replay", more="", expect="")
    made = loads(said, file="s.yaml", set=parse_swap_options(["fabric=recorded:y.rec.gz"]))
    (swap,) = made.section("hil").swap
    assert (swap.component, swap.driver) == ("fabric", "recorded")
    assert Path(swap.recording).name == "y.rec.gz"


def test_a_component_that_no_op_uses_is_refused(nic, tmp_path):
    more = f"    - {{component: node1.host, driver: recorded, recording: {nic}}}"
    with pytest.raises(ScenarioError, match=r"node1\.host: nothing to measure: no op"):
        check_devices(scenario(nic, more=more))


def test_the_host_of_this_machine_in_replay(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # a lock of its own
    text = SCENARIO.format(nic="x", mode="replay", more="  repeat: 1\n  busy: 1000000", expect="")
    text = text.replace(
        "{component: node0.nic0, driver: recorded, recording: x, covers: [node1.nic0]}",
        "{component: node0.gpu0, driver: host}",
    )
    text = text.replace("repeat: 1", f"repeat: 1\n  keep_recording: {tmp_path}")
    one = check_devices(loads(text, file="s.yaml")).results["components"]["node0.gpu0"]
    assert (one["driver"], one["clock"], one["metric"]) == ("host", "cpu", "completion")
    assert one["ops"][0]["measured"] > 1e-6  # 1 MB
    assert read(tmp_path / "node0.gpu0.rec.gz").driver == "host"


def test_two_catalogs_stand_side_by_side_on_the_same_measurements(nic):
    text = SCENARIO.format(nic=nic, mode="replay", more="", expect="")
    fitted = text.replace("8 Gb/s, latency: 1 us", "6.4 Gb/s, latency: 3 us")
    better = loads(fitted, file="s.yaml")
    told = check_devices(scenario(nic), other_scenario=better).results
    one = told["components"]["node0.nic0"]
    assert one["beside"]["max"]["value"] < 0.15 < one["errors"]["max"]["value"]
    page = accuracy_page(told)
    assert "This catalog against the other" in page
    assert "composition error" in page


def test_the_real_job_tells_model_error_from_composition_error(nic):
    more = "  real: {iteration_time: 3 ms, low: 2.9 ms, high: 3.1 ms, source: a test}"
    whole = check_devices(scenario(nic, more=more)).results["whole"]
    real = whole["real"]
    assert real["composition"] == pytest.approx(whole["measured"] / 3e-3 - 1)
    assert real["all"] == pytest.approx(whole["predicted"] / 3e-3 - 1)
    assert real["spread"] == pytest.approx(3.1 / 2.9 - 1)


def test_the_error_of_the_whole_is_that_of_the_answer(nic):
    expect = "expect: [{that: hil.makespan.error.p50 <= 20 %}]\nanswer: {minimize: makespan}"
    told = check_devices(scenario(nic, expect=expect)).results
    assert told["answer"]["metric"] == "makespan"
    assert [e["component"] for e in told["expect"]] == ["makespan"]
    assert told["expect"][0]["value"] == pytest.approx(abs(told["whole"]["error"]))
    assert told["expect"][0]["outcome"] == "pass"
    lead = " ".join(verdict_sentences(told))
    assert "With models alone makespan is " in lead
    assert "iteration" not in lead
    other = expect.replace("hil.makespan", "hil.iteration_time")
    with pytest.raises(ScenarioError, match=r"'hil.iteration_time.error' .* hil.makespan.error"):
        check_devices(scenario(nic, expect=other))


def test_a_check_that_an_earlier_version_saved_is_shown_as_it_was(nic, tmp_path):
    more = "  real: {iteration_time: 3 ms, low: 2.9 ms, high: 3.1 ms, source: a test}"
    one = scenario(nic, more=more)
    folder = save_check(one, check_devices(one), tmp_path / "runs", "a test")
    now = CliRunner().invoke(app, ["show", str(folder)]).output
    assert "The real job took 3 ms" in now
    saved = json.loads((folder / "accuracy.json").read_text())
    del saved["answer"]
    saved["whole"]["real"]["iteration_time"] = saved["whole"]["real"].pop("value")
    (folder / "accuracy.json").write_text(json.dumps(saved))
    assert CliRunner().invoke(app, ["show", str(folder)]).output == now


LIVE = (
    "{{component: node0.nic0, driver: verbs, recording: {nic}, covers: [node1.nic0], "
    "if_missing: recorded{more}}}"
)


@pytest.mark.parametrize("mode", only(["replay"], ["coupled", "replay"]))
@pytest.mark.parametrize(
    ("made", "more", "said"),
    [
        (
            {"driver": "cxl"},
            "",
            "has driver 'cxl', but the missing device would have 'verbs'",
        ),
        ({"clock": "icount"}, "", "its recording has clock 'icount'"),
        ({"flags": ("emulated",)}, "", "its recording has device 'an emulated one'"),
        ({"metric": "message_rate"}, "", "its recording has metric 'message_rate'"),
        (
            {"spec": {"transport": "uc"}},
            ", options: {transport: ud}",
            "its recording has transport 'uc'",
        ),
        ({}, ", device: mlx5_7", "its recording has device 'its default'"),
        ({"ended": "time limit of 9 s"}, "", "is partial .time limit of 9 s.*set partial: true"),
    ],
)
def test_what_stands_for_a_missing_device_is_of_that_device(tmp_path, mode, made, more, said):
    write = SEND.replace("send:send", "send:rdma-write")
    times = {write.format(MB): 1_250_000.0, write.format(KB): 10_000.0}
    path = recording(tmp_path / "nic.rec.gz", times, made.get("clock", "wall"),
                     driver=made.get("driver", "verbs"), flags=made.get("flags", ()))  # fmt: skip
    kept = read(path)
    samples = tuple(replace(s, metric=made.get("metric", s.metric)) for s in kept.samples)
    rest = {k: made[k] for k in ("spec", "ended") if k in made}
    replace(kept, samples=samples, **rest).write(path)
    swap = LIVE.format(nic=path, more=more)
    text = SCENARIO.replace(
        "{{component: node0.nic0, driver: recorded, recording: {nic}, covers: [node1.nic0]}}",
        "LIVE",
    )
    text = text.format(nic="", mode=mode, more="", expect="").replace("LIVE", swap)
    text = text.replace("send:send", "send:rdma-write")
    asked = study if mode == "coupled" else check_devices
    with pytest.raises(RecordingError, match=said):
        asked(loads(text, file="s.yaml"))
