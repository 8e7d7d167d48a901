"""One recording of several sittings: ``python tools/join_recordings.py OUT FILE…``.

A start of the process in which some op was not reached is left out, so that what remains is whole.
Of ``FILE:warm`` only the warm ops are taken: its contexts were others.
"""

import sys
from dataclasses import replace
from pathlib import Path

from foretrace.hil.recording import Recording, merge_recordings, read
from foretrace.hil.sample import WARM


def whole(recording: Recording) -> Recording:
    """Recording without the starts that were cut short."""
    every = {s.key for s in recording.samples}
    starts = {s.start for s in recording.samples}
    full = {n for n in starts if {s.key for s in recording.samples if s.start == n} == every}
    kept = tuple(s for s in recording.samples if s.start in full)
    return replace(recording, samples=kept, ended="")


def chosen(name: str) -> Recording:
    """Complete starts of the recording at `PATH` or, of its warm ops only, `PATH:warm`."""
    path, _, only = name.partition(":")
    recording = read(Path(path))
    kept = tuple(s for s in recording.samples if not only or s.context == WARM)
    return whole(replace(recording, samples=kept))


def main() -> None:
    out = Path(sys.argv[1])
    joined = merge_recordings([chosen(name) for name in sys.argv[2:]])
    joined.write(out)
    starts = len({s.start for s in joined.samples})
    print(f"{out}: {len(joined.samples)} samples of {starts} starts, {out.stat().st_size} B")


if __name__ == "__main__":
    main()
