"""Write a folder that records one GPU where it is: ``python tools/record_gpu.py FOLDER``.

Carry the folder to the GPU and run ``sh run.sh`` there; Python 3.11 with NumPy and torch is all it
needs, PYTHON names another one.  A list that was done is not done again: to go on after a stop, run
it again.  Recordings are in ``kept/``, a folder for each list of ``_gpu_shapes.py``; those in
``NAME-aside`` no fit may see, they judge it.  Held for about the time that is printed.
"""

import argparse
from pathlib import Path

from _gpu_shapes import LISTS, listed
from foretrace.hil.agent.bundle import write_bundle
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.sample import Request
from foretrace.models.compute.demand import demand

BATCH, BLOCKS, STARTS, WARM = 20, 4, 3, 4  # repeats; batches of a start; warm-up beside them
BUSY = 4.0  # cores that others may use: the GPU does the work
SLOWEST = {"fp32": 2e13, "fp64": 1e13}  # flop/s, to tell how long it will take; else
FLOPS, BANDWIDTH, OVERHEAD, BEGIN = 2e14, 1e12, 3e-4, 15.0  # B/s; s a batch and a start
RUN = """#!/bin/sh
# Does every work list beside it that was not done yet; PYTHON is the Python that has torch.
cd "$(dirname "$0")" || exit 1
failed=0
for work in *.json; do
  name=${work%.json}
  [ -d "kept/$name" ] && continue
  rm -rf "part/$name"
  if "${PYTHON:-python3}" foretrace-agent.pyz --record "$work" --out "part/$name"; then
    mkdir -p kept && mv "part/$name" "kept/$name"
  else
    failed=1
  fi
done
exit $failed
"""


def works(device: str) -> dict[str, WorkList]:
    """Work lists by the name of the file they are recorded to."""
    found = {}
    for name in LISTS:
        for suffix, asked in zip(("", "-aside"), listed(name), strict=True):
            requests = tuple(Request(s, BATCH) for s in asked)
            found[name + suffix] = WorkList(
                "torch",
                requests,
                {"device": device, "memory": True},
                starts=STARTS,
                most_starts=STARTS,
                blocks=BLOCKS,
                seconds=3 * seconds(requests) + 120,
                busy=BUSY,
                note=name + suffix,
            )
    return found


def seconds(requests: tuple[Request, ...]) -> float:
    """About how long a list takes on a GPU that is slower than most."""
    each = BEGIN
    for request in requests:
        asked = demand(request.signature)
        dtype = request.signature.partition(" ")[2].partition("[")[0]
        once = asked.flop / SLOWEST.get(dtype, FLOPS) + asked.bytes / BANDWIDTH
        each += (BLOCKS + WARM) * (request.n * once + OVERHEAD)
    return STARTS * each


def planned(folder: Path, device: str) -> float:
    """Write the work lists; returns how long measuring them will take, s."""
    folder.mkdir(parents=True, exist_ok=True)
    every = works(device)
    for name, work in every.items():
        (folder / f"{name}.json").write_text(work.text())
    (folder / "run.sh").write_text(RUN)
    write_bundle(folder / "foretrace-agent.pyz")
    return sum(seconds(w.requests) for w in every.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    took = planned(args.folder, args.device)
    print(f"wrote {args.folder}: {len(works(args.device))} lists, about {took / 60:.0f} minutes")


if __name__ == "__main__":
    main()
