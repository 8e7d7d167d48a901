"""Write one recording for each piece of a recorded plan: ``calibration.record.split_plan OUT FOLDER
PIECE…`` writes ``OUT/torch-PIECE-h100.rec.gz`` from the journals in ``FOLDER``.

The kernel's version is cut at its first hyphen; the rest names a build of the machine.
"""

import sys
from dataclasses import replace
from pathlib import Path

from foretrace.hil.measuring.plan_journal import read_journals, recording_of_journals
from foretrace.hil.recording import SUFFIX, Recording


def recording_of_piece(folder: Path, piece: str) -> Recording:
    """Recording of one piece of a plan, process starts numbered from 0."""
    journals = [j for j in read_journals(folder).values() if j.head["piece"] == piece]
    found = recording_of_journals(dict(enumerate(journals)))
    versions = dict(found.versions)
    versions["kernel"] = versions["kernel"].partition("-")[0]
    return replace(found, versions=versions, note=piece)


def main() -> None:
    out, folder = (Path(word) for word in sys.argv[1:3])
    for piece in sys.argv[3:]:
        path = out / f"torch-{piece}-h100{SUFFIX}"
        recording = recording_of_piece(folder, piece)
        recording.write(path)
        print(f"{path}: {len(recording.samples)} samples, {path.stat().st_size} B")


if __name__ == "__main__":
    main()
