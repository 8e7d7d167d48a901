"""Whole training steps from fitted families of ops, beside the median of eight untraced starts.

    python benchmarks/steps_from_families.py

Every op of a family that was fitted lasts as its line says, host ops and gaps as recorded.  Twice:
lines of all recordings (two thirds of a model's shapes are among what was fitted, the rest not),
and lines of recordings without the model that is judged, so that none of its shapes was.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from foretrace.scenarios.fitted import families_file
from foretrace.scenarios.fitting import measured
from foretrace.scenarios.fitting_families import families
from foretrace.scenarios.loader import loads
from foretrace.scenarios.points import point
from foretrace.scenarios.workloads import DATA
from foretrace.traces.starts import read

RECORDINGS = {
    "gpt": "foretrace:torch-gpt-epyc",
    "resnet50": "foretrace:torch-resnet50-epyc",
    "shapes": "foretrace:torch-shapes-epyc",
}
SCENARIO = """
foretrace: 1
name: step-from-families
workload:
  trace: foretrace:{name}
  starts: foretrace:{name}
  recorded_on: {{device: epyc-zen4-core, nodes: 1}}
cluster:
  nodes: 1
  node: {{gpu: {{model: epyc-zen4-core, count: 1}}, host: epyc-zen4-vm}}
backends: {{"node*.gpu*": {{use: families, file: {file}, others: recorded}}}}
"""


def lines(names: list[str], out: Path) -> Path:
    """A file of families, fitted to those recordings."""
    data = measured([RECORDINGS[n] for n in names])
    told = families_file(families(data, "shapes", draws=2), data, "shapes", "")
    out.write_text(json.dumps(told))
    return out


def step(name: str, file: Path) -> tuple[float, str]:
    """Predicted step, s, and where its durations are from."""
    result = point(loads(SCENARIO.format(name=name, file=file))).run()
    return result.iteration_time, "; ".join(result.sources)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        every = lines(list(RECORDINGS), Path(folder) / "all.json")
        for name in ("gpt", "resnet50"):
            truth = float(np.median(read([DATA / name]).medians))
            others = [n for n in RECORDINGS if n != name]
            without = lines(others, Path(folder) / f"without-{name}.json")
            for how, file in (("all recordings", every), ("none of its shapes", without)):
                seconds, source = step(name, file)
                found = {"model": name, "lines": how, "step_ms": 1e3 * seconds}
                found |= {"measured_ms": 1e3 * truth, "error": seconds / truth - 1}
                print(json.dumps({**found, "source": source[-60:]}), flush=True)


if __name__ == "__main__":
    main()
