"""Pages in a real browser: they make no requests and log no errors."""

import shutil
import subprocess

import pytest
from foretrace.reports.html import POLICY
from foretrace.reports.run.run_page import run_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip


@pytest.fixture
def logged(tmp_path):
    """Messages that a browser logs for a page; its policy turns every request into a message."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")

    def look(html):
        (tmp_path / "r.html").write_text(html)
        told = subprocess.run(
            [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
             (tmp_path / "r.html").as_uri()],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "</html>" in told.stdout
        return [line for line in told.stderr.splitlines() if "CONSOLE" in line]

    return look


def test_a_report_makes_no_requests_and_logs_no_errors(small, logged):
    html = run_page(small.summary.to_dict(), small.results, RUN)
    assert POLICY in html
    assert logged(html) == []


def test_the_log_sees_requests_and_errors(small, logged):
    """Proof that the test above can fail, and that scripts in a scenario's texts do not run."""
    html = run_page(small.summary.to_dict(), small.results, RUN)
    bad = "<img src='http://127.0.0.1:9/x.png'><script>document.title = 'run'</script></main>"
    lines = logged(html.replace("</main>", bad))
    assert any("127.0.0.1:9/x.png" in line for line in lines)
    assert any("inline script" in line for line in lines)
