"""Trim a profiler's trace to what foretrace reads: ``calibration.record.trim_trace OUT FILE…``."""

import gzip
import json
import sys
from pathlib import Path

KINDS = ("cpu_op", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "ac2g",
         "fwdbwd", "user_annotation")  # fmt: skip
ARGS = ("External id", "correlation", "stream", "device", "Input Dims", "Input type",
        "Input Strides", "Concrete Inputs", "Sequence number", "Fwd thread id", "grid", "bytes",
        "Record function id")  # fmt: skip


def main() -> None:
    out = Path(sys.argv[1])
    for name in sys.argv[2:]:
        told = json.loads(gzip.decompress(Path(name).read_bytes()))
        events = [e for e in told["traceEvents"] if e.get("cat") in KINDS or e["ph"] == "M"]
        begin = min(e["ts"] for e in events if e["ph"] == "X")
        for event in events:
            event["ts"] = round(event.get("ts", begin) - begin, 3)
            if "args" in event and event["ph"] == "X":
                event["args"] = {k: v for k, v in event["args"].items() if k in ARGS}
        kept = {k: told[k] for k in ("schemaVersion", "deviceProperties", "displayTimeUnit")}
        text = json.dumps(kept | {"traceEvents": events}, separators=(",", ":"))
        path = out / Path(name).name
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(f"{path}: {len(events)} events, {path.stat().st_size} B")


if __name__ == "__main__":
    main()
