"""Locks of devices lie in a folder of this run, so that two runs of these tests do not meet."""

import logging
import os
import sys
import tempfile
from pathlib import Path

import pytest
from foretrace.scenarios.cli import app as application

ODD = Path(__file__).parents[1] / "helpers/devices/odd_driver.py"


@pytest.fixture(scope="session", autouse=True)
def _own_locks():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield os.environ


@pytest.fixture
def cli(tmp_path, capsys, monkeypatch):
    """Run a command in this process, with a list of agents: exit code, stdout, stderr."""
    (tmp_path / "foretrace").mkdir()
    agents = f"""
agents:
  odd: {{load: [{ODD}]}}
  none: {{load: [{ODD}], environment: {{ODD_PROBE: denied}}}}
"""
    (tmp_path / "foretrace/agents.yaml").write_text(agents)

    def run(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.setattr(sys, "argv", ["foretrace", *map(str, words)])
        monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
        with pytest.raises(SystemExit) as left:
            application.main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run
