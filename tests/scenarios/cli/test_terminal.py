"""The answer in terminals of three widths, with and without colour: golden texts.

``FORETRACE_WRITE_GOLDENS=1`` writes them anew.
"""

import io
import os
import re
from pathlib import Path

import pytest
import typer
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.cli.terminal.show import print_run_answer
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from rich.console import Console

GOLDENS = Path(__file__).parents[2] / "golden" / "today" / "terminal"
EXPECTED = """\
  - name: quick
    set: {cluster.override.node0.gpu0.slowdown: 0.5}
expect:
  - that: makespan < 1 s
  - that: iteration_time.p50 < 0.5 ms
    otherwise: warn
run:"""


@pytest.fixture(scope="module")
def summary(folder):
    """A run with a better and a worse variant, an expectation that is met and one missed."""
    text = (folder / "tiny.yaml").read_text().replace("run:", EXPECTED, 1)
    return study(loads(text)).summary.to_dict()


def printed(summary, width, colour):
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, highlight=False, markup=False,
        color_system="standard" if colour else None, no_color=not colour, legacy_windows=False,
    )  # fmt: skip
    print_run_answer(summary, quiet=False, console=console)
    return file.getvalue()


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_answer_in_a_terminal(summary, width, colour):
    text = printed(summary, width, colour)
    file = GOLDENS / f"{width}{'-colour' * colour}.txt"
    if os.environ.get("FORETRACE_WRITE_GOLDENS"):
        file.write_text(text, encoding="utf-8")
        pytest.skip(f"WRITTEN, not compared: {file}")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(summary, width):
    text = printed(summary, width, colour=False)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_word_is_cut_and_no_line_begins_with_a_unit(summary, width):
    lines = printed(summary, width, colour=False).splitlines()
    words = {word for line in lines for word in line.split()}
    assert {"communication", "gpu.utilization", "expected", "iteration_time.p50"} <= words
    said = lines[: lines.index("")]
    assert not [line for line in said if re.match("(%|µs|ms)( |$)", line)]
    assert [line.rstrip() for line in said] == said


def test_better_and_worse_met_and_missed_have_their_colours(summary):
    text = printed(summary, 200, colour=True)
    green, red, yellow = "\x1b[32m", "\x1b[31m", "\x1b[33m"
    assert f"{green}-" in text
    assert f"{red}+" in text
    assert f"{yellow}! warn" in text
    assert f"{yellow}! misses" in text
    assert f"{green}✓ pass" in text


def test_settings_that_differ_are_shown_as_plans_of_infrastructure_show_them(cli):
    code, out, _ = cli("compare", "tiny.yaml")
    assert code == 0
    assert "slow:\n  + cluster.override.node0.gpu0.slowdown: 1.5\n" in out
    assert "unsaid" not in out


@pytest.mark.parametrize("name", ["compare", "fit", "view"])
def test_the_list_of_commands_says_a_whole_sentence(name):
    """These three ended in dots."""
    listed = typer.main.get_command(app).commands
    room = 80 - 2 - 6 - max(map(len, listed))  # of 80 columns, as click lays them out
    assert not listed[name].get_short_help_str(room).endswith("...")
