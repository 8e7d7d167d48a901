"""Damage files for a while and read them: ``python tests/fuzz --seconds 60``.

Every reader of scenarios and traces is given changed inputs. It may take one or refuse it in
words; anything else is a finding: another exception, more than 20 s of CPU time, a file written
elsewhere, a process started. Findings are kept in a folder, a file each, and printed; the exit
code is then 1. ``python tests/fuzz --again FILE`` reads one again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from mutate import changed, damaged
from reach import Reach
from targets import REFUSED, Target, targets
from watch import HangError, TrespassError, Watch

MEMORY = 6 * 2**30  # of address space; what takes more fails here, not the machine
SLICE = 0.5  # seconds that a target has in one go
LOOKED_AT = 0.25  # share of inputs whose lines are looked at: that takes five times as long


class Fuzz:
    """Targets in turn, each with the inputs that reached something new."""

    def __init__(self, chosen: dict[str, Target], keep: Path, seed: int):
        self.targets, self.keep = chosen, keep
        self.draws = {name: random.Random(f"{seed} {name}") for name in chosen}
        self.watch, self.reach = Watch(), Reach()
        self.inputs = {name: list(t.seeds) for name, t in chosen.items()}
        self.found: dict[str, str] = {}
        self.count = dict.fromkeys(chosen, 0)

    def begin(self) -> None:
        """Read what is whole: imports and compiled code are then there."""
        for name, target in self.targets.items():
            for value in target.seeds:
                self._try(name, value, watched=False)

    def go_on(self, until: float) -> None:
        """Until a time of the clock."""
        while time.monotonic() < until:
            for name in self.targets:
                end = min(until, time.monotonic() + SLICE)
                while time.monotonic() < end:
                    self._one(name)

    def _one(self, name: str) -> None:
        inputs, draw = self.inputs[name], self.draws[name]
        value = draw.choice(inputs)
        if isinstance(value, bytes):
            value = damaged(value, [v for v in inputs if isinstance(v, bytes)], draw)
        else:
            value = changed(value, draw)
        if self._try(name, value):
            inputs.append(value)

    def _try(self, name: str, value: Any, *, watched: bool = True) -> bool:
        """Read one input; whether it reached a line that none did before."""
        self.count[name] += 1
        folder = Path(tempfile.mkdtemp(prefix="fuzz"))
        os.chdir(folder)
        try:
            looked_at = not watched or self.draws[name].random() < LOOKED_AT
            guard = self.watch.only(folder) if watched else nullcontext()
            with guard, self.reach.seen(looked_at) as n:
                self.targets[name].read(value, folder)
        except REFUSED as error:
            if not watched or not str(error):  # what is whole is taken
                self._keep(name, value, error)
        except (Exception, HangError, TrespassError) as error:
            self._keep(name, value, error)
        finally:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
        return n[0]

    def _keep(self, name: str, value: Any, error: BaseException) -> None:
        """One file for each place of ours that fails."""
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "fuzz" not in f.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        last = str(error).strip().splitlines()[-3:]
        key = f"{name}: {type(error).__name__} {where} {' | '.join(last)[:300]}"
        short = f"{name} {type(error).__name__} {where} {_place(str(error))}"
        if short in self.found:
            return
        self.found[short] = key
        raw = isinstance(value, bytes)
        text = value if raw else json.dumps(value).encode()
        file = self.keep / f"{name}-{hashlib.sha256(text).hexdigest()[:8]}{'' if raw else '.json'}"
        file.write_bytes(text)
        print(f"{key}\n    {file}", flush=True)
        if where:
            traceback.print_exception(error, limit=-4)


def _place(text: str) -> str:
    """The last line of ours in a printed traceback, so that equal faults are one."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else ""


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    words.add_argument("--seed", type=int, default=random.randrange(2**31), help="of all changes")
    words.add_argument("--only", nargs="*", help="targets; all unless said")
    words.add_argument("--keep", type=Path, help="folder for findings")
    words.add_argument("--again", type=Path, help="read one finding again")
    said = words.parse_args()
    logging.disable(logging.CRITICAL)  # what a driver's library raised is told to who asked
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = {n: t for n, t in targets().items() if not said.only or n in said.only}
    if said.again:
        name = said.again.name.rpartition("-")[0]
        text = said.again.read_bytes()
        value = json.loads(text) if said.again.suffix == ".json" else text
        folder = Path(tempfile.mkdtemp(prefix="fuzz"))
        os.chdir(folder)
        print(chosen[name].read(value, folder))
        return 0
    keep = said.keep or Path(tempfile.mkdtemp(prefix="findings"))
    keep.mkdir(parents=True, exist_ok=True)
    fuzz = Fuzz(chosen, keep.resolve(), said.seed)
    fuzz.begin()
    with suppress(KeyboardInterrupt):
        fuzz.go_on(time.monotonic() + said.seconds)
    counts = ", ".join(f"{name} {count:,}" for name, count in fuzz.count.items())
    print(f"seed {said.seed}: {sum(fuzz.count.values()):,} inputs ({counts})")
    print(f"{len(fuzz.reach.lines):,} lines of ours reached, {len(fuzz.found)} findings")
    return int(bool(fuzz.found))


if __name__ == "__main__":
    sys.exit(main())
