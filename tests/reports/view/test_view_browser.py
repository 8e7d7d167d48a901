"""``foretrace view`` in a real browser: it zooms, searches, and shows an op of a large table."""

import json
import re
import shutil
import subprocess
import threading

import pytest
from browser import Browser
from foretrace.reports.view import pyramid
from foretrace.reports.view.opened_runs import OpenedRuns, ViewedRun
from foretrace.reports.view.view_page import view_pages
from foretrace.reports.view.view_server import ViewServer
from op_tables import chain, write_meeting_run, write_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--disable-sync", "--enable-logging=stderr",
    "--window-size=1100,620", "--virtual-time-budget=20000",
)  # fmt: skip
USE = """
const seen = {}, all = () => document.getElementById("drawn").textContent;
const until = async (so) => { while (!so()) await new Promise((go) => setTimeout(go, 20)); };
addEventListener("load", async () => {
  await until(all);
  seen.whole = all();
  foretrace.viewed.show(1e-9, 1.1e-9);
  await until(() => all() !== seen.whole);
  seen.near = all();
  foretrace.viewed.find("NORM");
  await until(() => foretrace.viewed.state().found.includes("ops"));
  seen.found = foretrace.viewed.state().found;
  document.querySelector("button[title='the next match']").click();
  await until(() => foretrace.viewed.state().picked);
  seen.picked = foretrace.viewed.state().picked;
  await until(() => !document.getElementById("op").hidden);
  seen.op = document.getElementById("op").innerText;
  seen.bright = foretrace.viewed.state().view;
  document.title = JSON.stringify(seen);
});
"""


@pytest.fixture
def looked_at(tmp_path, monkeypatch):
    """Final state of the page of a run with 5,000 ops, and the errors that the browser logs."""
    if CHROMIUM is None:
        pytest.skip("no chromium here, so nobody has looked at the page: apt-get install chromium")
    monkeypatch.setattr(pyramid, "FEW", 100)  # so that there is a pyramid
    rows = [*chain(5000), *((3, 7, "copy", "fill", 100 * i, 100 * i + 90) for i in range(500))]
    opened = OpenedRuns([ViewedRun.of(write_run(tmp_path / "runs" / "abc", base=rows))])

    def look(pages):
        with ViewServer(pages(view_pages(opened))) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            told = subprocess.run(
                [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
                 server.address],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            server.shutdown()
        return told.stdout, [line for line in told.stderr.splitlines() if "CONSOLE" in line]

    yield look
    opened.close()


def used(pages):
    """The same pages plus a test script, which the page's own policy would block."""

    def page(query):
        html = pages[""](query).body.decode()
        html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
        body = html.replace("</body>", f"<script>{USE}</script></body>").encode()
        return pages[""](query)._replace(body=body, policy="default-src 'self' 'unsafe-inline'")

    return {**pages, "": page}


def test_the_page_draws_without_errors(looked_at):
    html, complaints = looked_at(lambda pages: pages)
    assert complaints == []
    assert re.search(r'id="drawn"[^>]*>5,500 ops here, in [\d,]+ bars: those that last less', html)
    assert "all of 5,500 ops" in html


def test_the_page_zooms_searches_and_shows_an_op(looked_at):
    html, complaints = looked_at(used)
    assert complaints == []
    seen = json.loads(re.search(r"<title>(.*?)</title>", html)[1])
    assert seen["near"] == "13 ops here, in 13 bars."
    assert seen["found"].startswith("1,667 ops, 11.7 ns")
    assert seen["picked"][0] == "norm"
    assert seen["picked"][3] == "base · rank 0 · stream 0"
    assert re.search(r"name\s+norm", seen["op"])
    assert re.search(r"component\s+node0\.gpu0", seen["op"])
    assert re.search(r"start\s+1e-11 s", seen["op"])
    assert seen["bright"][0] < 1e-11 < seen["bright"][1]


@pytest.fixture
def meeting(tmp_path):
    """A browser with a run of three ranks that take part in two collectives."""
    if CHROMIUM is None:
        pytest.skip("no chromium here, so nobody has looked at the page: apt-get install chromium")
    opened = OpenedRuns([ViewedRun.of(write_meeting_run(tmp_path / "runs" / "abc"))])
    with ViewServer(view_pages(opened)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser(tmp_path / "profile")
        browser.open(server.address)
        yield browser
        browser.close()
        server.shutdown()
    opened.close()


def when(browser, told):
    """Wait until a condition holds in the page."""
    browser.run(
        f"(async () => {{ while (!({told})) await new Promise(go => setTimeout(go, 10)); }})()"
    )


def test_ranks_of_a_collective_are_reached_by_keyboard(meeting):
    picked = "foretrace.viewed.state().picked"
    when(meeting, "foretrace.viewed.state().drawn")
    meeting.run("document.querySelector('#bars .lanes canvas').focus()")
    meeting.press("ArrowRight")
    meeting.press("ArrowDown")
    when(meeting, "!document.getElementById('members').hidden")
    assert meeting.run(picked)[:2] == ["all-reduce", "waiting, 2 ns"]
    assert meeting.run(picked)[3] == "base · rank 0 · stream 7"
    assert meeting.run("document.querySelector('#members p').textContent") == (
        "3 ranks take part. Rank 2 arrives last; the others wait for it, up to 2 ns."
    )
    rows = "[...document.querySelectorAll('#members tbody tr')]"
    assert meeting.run(f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))") == [
        ["rank 0", "0 s", "2 ns", ""], ["rank 1", "0 s", "2 ns", ""],
        ["rank 2", "2 ns", "—", "last"],
    ]  # fmt: skip
    meeting.press("m")
    when(meeting, f"{picked}?.[3].includes('rank 1')")
    assert meeting.run(picked)[:2] == ["all-reduce", "communication, 1 ns"]
    meeting.run(f"{rows}[2].querySelector('button').focus()")
    meeting.press("Enter")
    when(meeting, f"{picked}?.[3].includes('rank 2') && {rows}[2].ariaCurrent === 'true'")
    assert meeting.run(f"document.activeElement === {rows}[2].querySelector('button')")
    assert meeting.complaints == []


HOLD = """const asks = window.fetch;
window.fetch = async (...told) => {
  const answer = await asks(...told);
  if (String(told[0]).startsWith('op') && !window.held)
    await new Promise((go) => (window.held = go));
  return answer;
}"""


def test_a_late_reply_does_not_replace_a_newer_selection(meeting):
    when(meeting, "foretrace.viewed.state().drawn")
    meeting.run(HOLD)
    meeting.run("document.querySelector('#bars .lanes canvas').focus()")
    meeting.press("ArrowRight")
    when(meeting, "window.held")
    meeting.press("ArrowDown")
    when(meeting, "!document.getElementById('members').hidden")
    meeting.run("window.held()")
    meeting.frame()
    assert not meeting.run("document.getElementById('members').hidden")
    assert meeting.complaints == []
