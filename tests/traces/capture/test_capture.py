"""Does `capture` say what went wrong?  None of this needs torch."""

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from foretrace.sim.errors import TraceError
from foretrace.traces.capture import training_hook
from foretrace.traces.capture.launcher import capture, profiler_slowdown


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_that_fails_is_reported_with_its_exit_code(tmp_path):
    with pytest.raises(TraceError, match="failed with exit code 3; it must run to its end"):
        capture(python("raise SystemExit(3)"), tmp_path)


def test_a_script_without_a_step_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"made no optimizer step; call step\(\) of"):
        capture(python("pass"), tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_a_python_without_torch_is_told_which_extra_to_install(tmp_path):
    with pytest.raises(TraceError, match=r"has no torch; pip install torch there"):
        capture(python("import torch"), tmp_path)


def test_a_program_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(TraceError, match="no-such-program: cannot be run"):
        capture(["no-such-program"], tmp_path)


def test_a_recording_is_not_written_over(tmp_path):
    (tmp_path / "rank0.json.gz").touch()
    with pytest.raises(TraceError, match="already holds a recording; name another folder"):
        capture(python("pass"), tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps: 0; record at least 1"),
        ({"warm_up": -1}, "warm_up: -1; record at least 0"),
        ({"untraced": -2}, "untraced: -2; record at least 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        capture(python("pass"), tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_an_empty_command_is_refused(tmp_path):
    with pytest.raises(ValueError, match="command: empty"):
        capture([], tmp_path)


def test_the_hook_leaves_the_start_up_file_of_the_user_in_force(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.ours = 7\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TraceError, match="exit code 7"):
        capture(python("import sys; raise SystemExit(sys.ours)"), tmp_path / "out")


def test_the_hook_leaves_no_trace_in_a_python_that_does_not_train(tmp_path):
    code = "import sys; assert not any('foretrace-' in p for p in sys.path), sys.path"
    with pytest.raises(TraceError, match="made no optimizer step"):
        capture(python(code), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_hook_needs_the_standard_library_only():
    """The Python that trains need not have foretrace, nor anything that foretrace needs."""
    path = str(Path(training_hook.__file__))
    code = f"import runpy, sys; runpy.run_path({path!r}); assert 'foretrace' not in sys.modules"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], env=dict(os.environ))
    assert done.returncode == 0


def test_only_clean_steps_enter_the_slowdown(tmp_path):
    rows = ["warm-up,90", "untraced,10", "prepare,70", "traced,12", "traced,14", "export,80"]
    table = tmp_path / "rank0.steps.csv"
    table.write_text("\n".join(["phase,duration_ns", *rows, "untraced,10"]))
    assert profiler_slowdown(table) == 1.3


def test_without_untraced_steps_nothing_is_known_of_the_slowdown(tmp_path):
    table = tmp_path / "rank0.steps.csv"
    table.write_text("phase,duration_ns\nwarm-up,90\ntraced,12\n")
    assert math.isnan(profiler_slowdown(table))
