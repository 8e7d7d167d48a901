"""Predict training steps from fitted op families, next to the median of eight untraced starts.

    python -m foretrace.calibration.local.steps_from_families

Every op of a fitted family takes the time of its linear model; host ops and gaps are as recorded.
Two fits: one to all recordings (which include two thirds of a model's shapes), and one to
recordings without the judged model. The interval is that of the run, with the held-out error of
each family. Each is run with warm caches for every op, and with caches as previous ops leave them.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.fitting.caches import fit_cache_model
from foretrace.scenarios.studies.fitting.catalog_entry import families_file
from foretrace.scenarios.studies.fitting.families import fit_families
from foretrace.scenarios.studies.fitting.recording_rows import measured_rows
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.workloads.trace_files import DATA
from foretrace.traces.step_times import read

RECORDINGS = {
    "gpt": "foretrace:torch-gpt-epyc",
    "resnet50": "foretrace:torch-resnet50-epyc",
    "shapes": "foretrace:torch-shapes-epyc",
    "rare": "foretrace:torch-rare-epyc",
}
CACHES = ("foretrace:torch-cold-epyc", "foretrace:host-epyc")
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
run: {{replicas: 1}}
backends: {{"node*.gpu*": {{use: families, file: {file}, others: recorded, caches: {caches}}}}}
"""


def lines(names: list[str], out: Path) -> Path:
    """Write a file of families fitted to these recordings."""
    data = measured_rows([RECORDINGS[n] for n in names])
    told = families_file(
        fit_families(data, "shapes", draws=2), data, "shapes", "", caches=fit_cache_model(CACHES)
    )
    out.write_text(json.dumps(told))
    return out


def step(name: str, file: Path, caches: str) -> tuple[float, Sequence[float]]:
    """Predicted step and its interval, in s."""
    value = study(loads(SCENARIO.format(name=name, file=file, caches=caches))).summary.value(
        "base", "iteration_time.p50"
    )
    return value.value, value.interval


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        every = lines(list(RECORDINGS), Path(folder) / "all.json")
        for name in ("gpt", "resnet50"):
            truth = float(np.median(read([DATA / name]).medians))
            others = [n for n in RECORDINGS if n != name]
            without = lines(others, Path(folder) / f"without-{name}.json")
            for how, file in (("all recordings", every), ("none of its shapes", without)):
                for kept in ("alone", "step"):
                    seconds, within = step(name, file, kept)
                    found = {"model": name, "lines": how, "caches": kept, "step_ms": 1e3 * seconds}
                    found |= {"measured_ms": 1e3 * truth, "error": seconds / truth - 1}
                    found |= {"interval_ms": [1e3 * s for s in within]}
                    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
