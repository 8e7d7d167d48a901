"""Interactive pages in a real browser: zoom, search, fold, sort, filter, save, keyboard."""

import json

import pytest
from browser import CHROMIUM, Browser
from foretrace.reports.run.run_page import run_page

RUN = {"resolved": "", "command": "foretrace run s.yaml", "run": "0" * 12, "title": "",
       "timeline_cut": ""}  # fmt: skip
SAVED = """foretrace.save = (name, parts) => { window.saved = [name, String(parts)] }"""


@pytest.fixture(scope="module")
def page(small, tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    folder = tmp_path_factory.mktemp("live")
    (folder / "r.html").write_text(run_page(small.summary.to_dict(), small.results, RUN))
    browser = Browser(folder / "profile")
    browser.path = folder / "r.html"
    yield browser
    browser.close()


@pytest.fixture
def opened(page):
    """The page, freshly opened."""
    page.complaints.clear()
    page.open(page.path)
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)  # not over a mark
    page.run("document.querySelector('.timeline').scrollIntoView()")
    page.frame()
    yield page
    assert page.complaints == []


def state(page):
    return page.run("foretrace.timelines.state()")


def focus(page, selector):
    page.run(f"document.querySelector({json.dumps(selector)}).focus()")


def width(view):
    return view[1] - view[0]


def test_all_interactive_components_start(opened):
    assert opened.run("document.documentElement.dataset.alive") == "yes"
    assert (
        opened.run("[...document.querySelectorAll('.still')].filter(e => e.offsetHeight).length")
        == 0
    )


def test_a_heat_map_has_a_time_axis_and_a_legend_of_shades(opened):
    ticks = opened.run("[...document.querySelector('.heat .ticks').children].map(e => e.innerText)")
    assert len(ticks) > 2
    assert ticks[0] == "0 s"
    shades = "[...document.querySelector('.heat .keys').children].map(e => e.innerText)"
    assert opened.run(shades) == ["25 %", "50 %", "75 %", "100 %"]


def test_boxes_of_the_tree_stay_within_it_and_narrow_ones_have_no_name(opened):
    inside = """[...document.querySelectorAll('.boxes > *')].every(e =>
        e.getBoundingClientRect().right <= e.parentElement.getBoundingClientRect().right + 1)"""
    assert opened.run(inside)
    named = "[...document.querySelectorAll('.boxes button')].filter(e => e.innerText)"
    assert opened.run(f"Math.min(...{named}.map(e => e.offsetWidth))") >= 29


def test_the_timeline_zooms_and_moves_by_keyboard(opened):
    focus(opened, ".timeline canvas[tabindex]")
    whole = state(opened)["view"]
    opened.press("+")
    near = state(opened)["view"]
    assert width(near) == pytest.approx(width(whole) / 2)
    opened.press("ArrowRight", shift=True)
    moved = state(opened)["view"]
    assert moved[0] == pytest.approx(near[0] + width(near) / 4)
    opened.press("-")
    opened.press("0")
    assert state(opened)["view"] == whole


def test_the_wheel_zooms_around_the_pointer_with_ctrl_(opened):
    box = opened.run(
        "(() => { const b = document.querySelector('.timeline canvas[tabindex]')"
        ".getBoundingClientRect(); return [b.x, b.y, b.width] })()"
    )
    before = state(opened)["view"]
    at = {"x": box[0] + box[2] / 4, "y": box[1] + 20}
    opened.ask(
        "Input.dispatchMouseEvent", type="mouseWheel", deltaX=0, deltaY=-300, modifiers=2, **at
    )
    opened.frame()
    after = state(opened)["view"]
    fixed = before[0] + width(before) / 4
    assert width(after) < 0.5 * width(before)
    assert after[0] + width(after) / 4 == pytest.approx(fixed, rel=1e-3)


def test_every_bar_can_be_reached_and_read_by_keyboard(opened):
    focus(opened, ".timeline canvas[tabindex]")
    opened.press("ArrowRight")
    first = state(opened)["picked"]
    opened.press("ArrowRight")
    assert state(opened)["picked"] != first
    opened.press("ArrowDown")
    lane = state(opened)["picked"][3]
    assert lane != first[3]
    assert opened.run("document.querySelector('.timeline .status').textContent").startswith(
        state(opened)["picked"][0]
    )
    opened.press("Enter")
    assert width(state(opened)["view"]) < 0.01


def test_ranks_of_a_collective_are_listed_and_reached_by_keyboard(opened):
    members = ".members:not([hidden])"
    rows = f"[...document.querySelectorAll('{members} tbody tr')]"
    opened.run("document.querySelector('.timeline .tools input').focus()")
    opened.type("nccl")
    opened.press("Enter")
    while not state(opened)["picked"][1].startswith("communication, "):  # its launches have it too
        opened.press("Enter")
    opened.frame()
    assert opened.run(f"document.querySelector('{members} p').textContent").startswith(
        "2 ranks take part. "
    )
    first = state(opened)["picked"]
    told = opened.run(f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))")
    assert [row[0] for row in told] == ["rank 0", "rank 1"]
    focus(opened, ".timeline .lanes canvas")
    opened.press("m")
    opened.frame()
    other = state(opened)["picked"]
    assert other[:3] == first[:3]
    assert {one[3].split(" · ")[1] for one in (first, other)} == {"rank 0", "rank 1"}
    here = opened.run(f"{rows}.findIndex(row => row.ariaCurrent === 'true')")
    assert told[here][0] in other[3]
    focus(opened, f"{members} tbody tr:nth-child({2 - here}) button")
    opened.press("Enter")
    opened.frame()
    assert state(opened)["picked"] == first
    assert opened.run(f"document.activeElement === {rows}[{1 - here}].querySelector('button')")


def test_an_op_of_one_rank_has_no_table_of_ranks(opened):
    focus(opened, ".timeline .lanes canvas")
    opened.press("ArrowRight")
    opened.frame()
    assert "communication" not in state(opened)["picked"][1]
    assert opened.run("document.querySelector('.members').hidden")


def test_the_search_counts_ops_and_goes_from_one_to_the_next(opened):
    focus(opened, ".timeline input")
    opened.type("gemm")
    assert state(opened)["found"].startswith("64 ops, ")  # of both variants, and their launches
    opened.press("Enter")
    assert "gemm" in state(opened)["picked"][0]
    assert state(opened)["found"].endswith("no. 1")
    one = state(opened)["picked"]
    opened.press("Enter")
    assert state(opened)["picked"] != one


def test_rows_fold_and_unfold(opened):
    rows = state(opened)["rows"]
    assert rows[:3] == ["base", "rank 0", "stream 0"]
    opened.run("document.querySelector('.timeline .rows button').click()")
    folded = state(opened)["rows"]
    assert folded[:2] == ["base", "quick"]
    opened.run("document.querySelector('.timeline .rows button').click()")
    assert state(opened)["rows"] == rows


def cells(page, table, column):
    return page.run(
        f"[...document.querySelectorAll('{table} tbody tr')].filter(r => !r.hidden)"
        f".map(r => r.cells[{column}].innerText)"
    )


def test_tables_sort_by_size_whatever_the_unit(opened):
    opened.run("document.querySelectorAll('#ops thead button')[2].click()")
    times = cells(opened, "#ops", 2)
    sizes = opened.run(f"{json.dumps(times)}.map(foretrace.sizeOf)")
    assert len({t.split()[-1] for t in times}) > 1
    assert sizes == sorted(sizes)
    opened.run("document.querySelectorAll('#ops thead button')[2].click()")
    assert cells(opened, "#ops", 2) == times[::-1]
    assert (
        opened.run("document.querySelectorAll('#ops thead th')[2].getAttribute('aria-sort')")
        == "descending"
    )


def test_tables_are_filtered_and_saved_as_they_are_seen(opened):
    opened.run(SAVED)
    opened.run("window.frame = document.querySelector('#metrics .with')")
    opened.run("frame.querySelector('input').focus()")
    opened.type("nic util")
    kept = opened.run("[...frame.querySelectorAll('tbody tr')].filter(r => !r.hidden).length")
    assert 0 < kept < opened.run("frame.querySelectorAll('tbody tr').length")
    opened.run("frame.querySelector('.tools button').click()")
    name, text = opened.run("window.saved")
    assert name.endswith(".csv")
    head, *rows = text.strip().split("\r\n")
    assert head == "metric,base,quick"
    assert len(rows) == kept
    assert all("nic" in row for row in rows)


def test_a_figure_is_saved_with_its_text_and_its_colours(opened):
    opened.run(SAVED)
    opened.run("document.querySelector('#blame figure .tools button').click()")
    name, text = opened.run("window.saved")
    assert name.endswith(".svg")
    assert text.startswith("<svg")
    assert ">base</text>" in text
    assert "var(--" not in text
    assert "rgb(" in text


def test_the_tree_opens_by_keyboard_and_goes_back(opened):
    focus(opened, ".tree .boxes button")
    opened.press("ArrowDown")
    name = opened.run("document.activeElement.textContent")
    opened.run("document.activeElement.click()")
    assert opened.run("document.querySelector('.tree .path').textContent").startswith(
        f"all variants › {name}"
    )
    opened.press("Escape")
    assert opened.run("document.querySelectorAll('.tree .path button').length") == 1


def test_marks_of_static_figures_are_read_by_keyboard(opened):
    focus(opened, "#answer figure svg")
    opened.press("ArrowRight")
    assert opened.run("document.querySelector('.tip').textContent").startswith("base: ")
    assert opened.run("document.querySelectorAll('svg title').length") == 0


def test_cells_of_a_heat_map_are_read_by_keyboard(opened):
    focus(opened, ".heat canvas")
    opened.press("ArrowRight")
    opened.press("ArrowDown")
    assert " %" in opened.run("document.querySelector('.heat .status').textContent")


def test_without_script_the_static_figures_are_shown(page):
    page.complaints.clear()
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(page.path, alive=False)
        assert page.run("document.querySelectorAll('.tools').length") == 0
        assert page.run("[...document.querySelectorAll('#timeline .still svg')].length") == 1
        assert page.run("document.querySelector('#timeline .still').offsetHeight") > 50
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("screen", [390, 1100, 1600])
def test_nothing_overflows_the_page(opened, screen):
    opened.ask("Emulation.setDeviceMetricsOverride", width=screen, height=800, deviceScaleFactor=1,
               mobile=False)  # fmt: skip
    try:
        opened.frame()
        assert opened.run("document.documentElement.scrollWidth") <= screen
    finally:
        opened.ask("Emulation.clearDeviceMetricsOverride")
