"""What tests of several folders share: the command line, run in this process."""

import logging
import sys

import pytest


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run a command where the test stands: exit code, stdout, stderr."""
    from foretrace.scenarios.commands import app as application

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["foretrace", *map(str, words)])
        monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
        with pytest.raises(SystemExit) as left:
            application.main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run


@pytest.fixture
def refused(cli, tmp_path, monkeypatch):
    """Run a command in an empty folder that must end with exit code 2: all that it says."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code, out, err = cli(*words)
        assert (code, out) == (2, ""), err
        return err.removeprefix("error ").removesuffix("\n")

    return run
