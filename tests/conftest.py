"""What tests of several folders share: small traces made by hand, and the command line.

Examples of hypothesis are the same on every push, and what judges them is no clock; `make nightly`
tries others, and many more.
"""

import gc
import gzip
import json
import logging
import re
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "push",
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("quick", settings.get_profile("push"), max_examples=10)
settings.register_profile(
    "nightly", settings.get_profile("push"), max_examples=1000, derandomize=False
)
settings.load_profile("push")  # another one: pytest --hypothesis-profile=NAME

signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests hear it under nohup,
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and that their terminal closed


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without garbage collections, and let none visit later what was imported."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


BASE = 1_712_170_331_000_000  # µs: a float64 holds no nanoseconds here


class Script:
    """Events of one rank, as a profiler would write them; times in µs after BASE."""

    def __init__(self, rank=0, world=1, **info):
        self.rank, self.events, self.correlation = rank, [], 0
        groups = [{"pg_name": "0", "ranks": list(range(world)), "backend_config": "nccl"}]
        self.document = {
            "distributedInfo": {
                "rank": rank,
                "world_size": world,
                "backend": "nccl",
                "pg_config": groups,
            },
            **info,
        }

    def add(self, cat, name, ts, dur, pid=1, tid=1, **args):
        """One event at `ts` for `dur` µs."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "args": args}
        event["ts"] = _exact(BASE * 1000 + round(ts * 1000))
        event["dur"] = _exact(round(dur * 1000))
        self.events.append(event)
        return event

    def op(self, name, ts, dur, tid=1, **args):
        return self.add("cpu_op", name, ts, dur, tid=tid, **args)

    def step(self, number, ts, dur):
        return self.add("user_annotation", f"ProfilerStep#{number}", ts, dur)

    def call(self, name, ts, dur, tid=1):
        self.correlation += 1
        self.add("cuda_runtime", name, ts, dur, tid=tid, correlation=self.correlation)
        return self.correlation

    def launch(self, ts, start, dur, stream=7, name="gemm", tid=1, call=3.0, **args):
        """A launch call at `ts` and the kernel that it starts."""
        c = self.call("cudaLaunchKernel", ts, call, tid)
        self.add(
            "kernel",
            name,
            start,
            dur,
            pid=0,
            tid=stream,
            stream=stream,
            device=0,
            correlation=c,
            **args,
        )
        return c

    def write(self, folder, name=None):
        path = Path(folder) / (name or f"rank{self.rank}.json.gz")
        if not any(e["cat"] in ("kernel", "cuda_runtime") for e in self.events):
            self.document["distributedInfo"] |= {"backend": "gloo"}  # a rank of a CPU
        text = json.dumps({**self.document, "traceEvents": self.events})
        text = re.sub(r'"#(-?[0-9.]+)#"', r"\1", text)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path

    def read(self, folder):
        from foretrace.traces.formats import kineto

        return kineto.read(self.write(folder))


def _exact(nanoseconds):
    """Microseconds with all their digits, which json would round: a number between #."""
    sign, rest = "-" * (nanoseconds < 0), abs(nanoseconds)
    return f"#{sign}{rest // 1000}.{rest % 1000:03d}#"


@pytest.fixture(scope="session")
def script():
    return Script


def _commands(app):
    """What the parser of an application is built from."""
    groups = (_commands(group.typer_instance) for group in app.registered_groups)
    return (id(app), *map(id, app.registered_commands), *groups)


@pytest.fixture(scope="session")
def parser_built_once():
    """The parser of the command line, which takes 20 ms, is built again for new commands only."""
    import typer.main

    build, built = typer.main.get_command, {}

    def get_command(app):
        key = _commands(app)
        if key not in built:
            built[key] = build(app)
        return built[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", get_command)
        yield


@pytest.fixture(autouse=True)
def roles_of_this_test():
    """Forget the roles that a test's scenarios declare: each has one layer in a process."""
    from foretrace.sim.facts.kind import ROLES

    before = dict(ROLES)
    yield
    ROLES.clear()
    ROLES.update(before)


@pytest.fixture
def cli(capsys, monkeypatch, parser_built_once):
    """Run a command where the test stands: exit code, stdout, stderr."""
    from foretrace.scenarios.cli import app as application

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
