"""On a phone the first screen shows how certain the answer is, and nothing overflows the page."""

import json
import re
import shutil
import subprocess

import pytest
from foretrace.reports.html import POLICY
from foretrace.reports.run.run_page import run_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
RUN = {"resolved": "", "command": "foretrace run s.yaml", "run": "0" * 12, "title": "",
       "timeline_cut": ""}  # fmt: skip
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--no-first-run", "--disable-sync", "--hide-scrollbars",
         "--virtual-time-budget=2000")  # fmt: skip
ASK = """<script>addEventListener("load", () => {
  const box = s => document.querySelector(s).getBoundingClientRect()
  const cells = [...document.querySelectorAll(".stack td, .stack th, .lead p, aside dd, .said p")]
  document.title = JSON.stringify({wide: document.documentElement.scrollWidth, screen: innerWidth,
    lead: box(".lead").bottom, sure: box("aside").bottom, table: box(".table").top,
    out: cells.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length})
})</script></main>"""


def measured(html, tmp_path, width, height):
    """Positions of elements on a screen of the given size; the page runs no script."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    (tmp_path / "r.html").write_text(html.replace(POLICY, "").replace("</main>", ASK))
    told = subprocess.run(
        [CHROMIUM, *QUIET, f"--window-size={width},{height}",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "r.html").as_uri()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(re.search(r"<title>(.*?)</title>", told.stdout)[1])


def test_certainty_is_on_the_first_screen_of_a_phone(small, tmp_path):
    html = run_page(small.summary.to_dict(), small.results, RUN)
    told = measured(html, tmp_path, 390, 844)
    assert told["screen"] <= 500  # else this is no phone
    assert told["lead"] < told["sure"] < min(844, told["table"])
    assert told["wide"] <= told["screen"]
    assert told["out"] == 0


def test_on_a_desktop_the_table_is_next_to_it(small, tmp_path):
    html = run_page(small.summary.to_dict(), small.results, RUN)
    told = measured(html, tmp_path, 1100, 620)
    assert told["sure"] < 620
    assert told["table"] < told["sure"]
    assert told["wide"] <= told["screen"]
