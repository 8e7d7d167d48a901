"""``foretrace view``: an address, and then nothing until Ctrl-C or until the terminal is closed."""

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from op_tables import chain, write_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "runs" / "small" / "abc123", base=chain(20))


def viewing(*words):
    """The command as a terminal starts it, and the address that it prints."""
    command = [sys.executable, "-m", "foretrace", "view", *words, "--no-browser"]
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done, done.stdout.readline().strip()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, -signal.SIGHUP)])
def test_it_serves_until_it_is_interrupted_or_its_terminal_closed(run, sent, code):
    view, address = viewing("abc")
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"small/abc123" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.rsplit("/", 2)[0] + "/", timeout=60)
        view.send_signal(sent)
        assert view.wait(60) == code
        out, err = view.communicate()
    finally:
        view.kill()
    assert out == ""
    assert err.splitlines()[:2] == [
        "reading runs/small/abc123/ops.base.parquet",
        "open this address; whoever has it can read the run. Ctrl-C ends it",
    ]
    assert ("closed" in err) == (sent == signal.SIGINT)


def test_a_run_whose_ops_were_not_kept_says_how_to_keep_them(run, refused):
    (run / "ops.base.parquet").unlink()
    assert refused("view", run) == (
        f"{run}: has no rows of ops (ops.*.parquet), so there is nothing to view; run it again "
        "with --keep ops"
    )


def test_what_is_no_run_is_refused(refused):
    assert refused("view", "none").startswith("none: no saved run in runs; there are none yet")


def test_three_runs_are_too_many(refused):
    assert refused("view", "a", "b", "c").startswith("view: 3 runs are too many")


def test_a_port_that_is_taken_is_named(run, cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = cli("view", run, "--port", port, "--no-browser")
    assert (code, out) == (2, "")
    assert f"error --port {port}: Address already in use; give another, or none" in err
