"""Cost of hardware in the loop: protocol round trips, clock reads, and repeated measurements.

A driver in an agent measures the same op many times. The benchmark compares the cost of a request
with the measured time, and checks that the result does not depend on the number of repeats per
request.
"""

import json
import statistics
import sys
import time

from foretrace.hil.agent.local_agent import in_agent_process
from foretrace.hil.drivers.linux.timer import READERS, clock_overhead
from foretrace.hil.sample import Request

OP = "host:chase uint8[4096]"
ASKED = (
    "host:fill uint8[65536]",
    "copy:h2h uint8[262144]",
    "compute:aten::mm fp32[256x256] fp32[256x256]",
)


def microseconds(call, n=500):
    taken = []
    for _ in range(n):
        begin = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(taken)


def main() -> None:
    begin = time.perf_counter()
    remote = in_agent_process("host")
    remote.open({})
    ready = time.perf_counter() - begin
    frame = microseconds(remote.describe)
    one = [Request(OP)]
    remote.timing(one)
    many = [Request(OP, 1000)]
    found = {
        "agent, from nothing to an open device, s": round(ready, 3),
        "describe, round trip, us": round(frame, 1),
        "timing of one chase, all in, us": round(microseconds(lambda: remote.timing(one), 100), 1),
        "its answer with 1,000 repeats, us more": round(
            microseconds(lambda: remote.timing(many), 20)
            - microseconds(lambda: remote.timing(one), 20),
            1,
        ),
        **{f"reading the {name} clock, ns": clock_overhead(read) for name, read in READERS.items()},
    }
    for signature in ASKED:
        medians = {n: [] for n in (1, 5, 25, 125)}
        for _ in range(9):
            for n, kept in medians.items():
                kept.append(remote.timing([Request(signature, n)])[0].median)
        middle = {n: statistics.median(kept) for n, kept in medians.items()}
        found[f"{signature}: median with n repeats over that with 125"] = {
            n: round(value / middle[125], 3) for n, value in middle.items()
        }
    remote.close()
    for name, value in found.items():
        print(f"{name:<80} {value}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
