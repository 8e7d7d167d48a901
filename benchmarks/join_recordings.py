"""One recording of several sittings: ``python benchmarks/join_recordings.py OUT FILE…``.

A start of the process in which some op was not reached is left out, so that what remains is whole.
"""

import sys
from dataclasses import replace
from pathlib import Path

from foretrace.hil.recording import Recording, merge, read


def whole(recording: Recording) -> Recording:
    """Without the starts that were cut."""
    every = {s.key for s in recording.samples}
    starts = {s.start for s in recording.samples}
    full = {n for n in starts if {s.key for s in recording.samples if s.start == n} == every}
    kept = tuple(s for s in recording.samples if s.start in full)
    return replace(recording, samples=kept, ended="")


def main() -> None:
    out, *files = map(Path, sys.argv[1:])
    joined = merge([whole(read(f)) for f in files])
    joined.write(out)
    starts = len({s.start for s in joined.samples})
    print(f"{out}: {len(joined.samples)} samples of {starts} starts, {out.stat().st_size} B")


if __name__ == "__main__":
    main()
