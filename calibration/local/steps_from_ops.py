"""Check whether ops measured one by one add up to a real training step.

From the bundled recordings, per process start: the ops of the step warm and alone, in context
(after their predecessors), and in order, each divided by the step of the same start. Nothing is
fitted.
"""

import json
import sys

import numpy as np
from foretrace.hil.bundled_recordings import recording_path
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import WARM

MODELS = ("gpt", "resnet50")


def medians(recording: Recording, start: int, warm: bool) -> dict[str, float]:
    """Median time of each op in ns, in one process start."""
    found: dict[str, list[float]] = {}
    for sample in recording.samples:
        if sample.start == start and sample.good and (sample.context == WARM) == warm:
            found.setdefault(sample.signature, []).append(sample.median)
    return {signature: float(np.median(values)) for signature, values in found.items()}


def ratios(recording: Recording, name: str, start: int) -> dict[str, float]:
    """Predicted step divided by measured step, minus one, for one process start."""
    alone, place = (medians(recording, start, warm) for warm in (True, False))
    graph, step = recording.spec["graphs"][name], alone[f"compute:step {name}"]
    found = {
        "alone": sum(alone[s] for s in graph) / step - 1,
        "in order": alone[f"compute:graph {name}"] / step - 1,
    }
    if place:  # the first ops of the graph have nothing before them, and stay as they are alone
        found["in place"] = sum(place.get(s, alone[s]) for s in graph) / step - 1
    return found


def main() -> None:
    told = {}
    for name in MODELS:
        recording = read(recording_path(f"foretrace:torch-{name}-epyc"))
        starts = sorted({s.start for s in recording.samples})
        rows = [ratios(recording, name, start) for start in starts]
        steps = [medians(recording, s, True)[f"compute:step {name}"] / 1e6 for s in starts]
        told[name] = {"steps_ms": [round(s, 1) for s in steps]}
        print(f"{name}: step {min(steps):.1f} to {max(steps):.1f} ms in {len(starts)} starts")
        for how in rows[0]:
            errors = [row[how] for row in rows if how in row]
            told[name][how] = [round(e, 4) for e in errors]
            print(
                f"  {how:<9} {np.median(errors):+.1%}  ({min(errors):+.1%} to {max(errors):+.1%})"
            )
    print(json.dumps(told), file=sys.stderr)


if __name__ == "__main__":
    main()
