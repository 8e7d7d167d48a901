"""Record the bundled traces, and the rates of the machine that runs them.

Every configuration is started in turn, then all again, so that drift affects all of them; rank r is
pinned to core r with one torch thread. Needs torch, taskset and jemalloc: in glibc's heap the
profiler's small long-lived blocks prevent reuse of freed tensors, so that a traced step of
ResNet-50 faulted in 60 MB of new pages and took 8 to 40 % longer; with jemalloc 4 % (median).
    python -m foretrace.calibration.record.training_steps DIR [--starts 8] [--variants]
Names that end in -2gbit need root: they use a network namespace with a slowed loopback device.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes.util
import json
import os
import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from foretrace.traces.capture.launcher import capture

WARM_UP, UNTRACED, TRACED, AFTER = 3, 24, 10, 6
STEPS = 1 + WARM_UP + UNTRACED + 1 + TRACED + 1 + AFTER  # see capture_hook.phase
RESNET = ["-m", "foretrace.traces.zoo.resnet50", "--batch", "8", "--image", "64"]
GPT = ["-m", "foretrace.traces.zoo.gpt", "--batch", "4", "--length", "64", "--bucket-mb", "4"]
SMALL = ["-m", "foretrace.traces.zoo.resnet50", "--batch", "2", "--image", "32"]
LARGE = ["-m", "foretrace.traces.zoo.gpt", "--batch", "16", "--length", "64", "--bucket-mb", "1"]
MODELS = {
    "resnet50": (1, RESNET),
    "gpt": (1, GPT),
    "ddp-resnet50": (2, RESNET),
    "ddp-gpt": (2, GPT),
}
RATES = {"compute": 1, "compute-pair": 2, "all-reduce": 2}  # pair: on both cores at once
VARIANTS = {  # of two processes, and the one-process profiles that they are predicted from
    "resnet50-small": (1, SMALL),
    "gpt-large": (1, LARGE),
    "ddp-resnet50-small": (2, SMALL),
    "ddp-gpt-2gbit": (2, GPT),
    "ddp-gpt-large-2gbit": (2, LARGE),
}
WIRED = {  # the same all-reduces, and those beside a thread that computes
    "all-reduce-2gbit": 2,
    "all-reduce-beside": 2,
    "all-reduce-beside-2gbit": 2,
}
WIRE = "-2gbit"  # of a name: the loopback device sends no quicker, by a token bucket
SHAPED = [
    "unshare", "--net", "sh", "-ec",
    "ip link set lo up; tc qdisc add dev lo root tbf rate 2gbit burst 128kb latency 200ms; "
    'exec "$@"', "sh",
]  # fmt: skip
PORT = 29531
FIRST = "-20"  # before whatever else runs here; without the right to it, nice warns and goes on
KEEP_MEMORY = "dirty_decay_ms:-1,muzzy_decay_ms:-1"  # freed pages stay: no faults in later steps


def launch(ranks: int, command: list[str]) -> int:
    """Start `ranks` pinned processes of `command`; returns 0 on success."""
    started = [_start(rank, ranks, command) for rank in range(ranks)]
    try:
        return max(abs(process.wait()) for process in started)
    finally:
        for process in started:
            process.kill()  # where this one was interrupted; else they have ended


def _start(rank: int, ranks: int, command: list[str]) -> subprocess.Popen[bytes]:
    """Start one rank on its core, with raised priority if permitted."""
    pinned = ["nice", "-n", FIRST, "taskset", "-c", str(rank), sys.executable, *command]
    process = subprocess.Popen(pinned, env=_env(rank, ranks), start_new_session=True)
    # Linux may share out cores by session before it looks at niceness.
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/autogroup").write_text(FIRST)
    return process


def _env(rank: int, ranks: int) -> dict[str, str]:
    allocator = {"LD_PRELOAD": _jemalloc(), "MALLOC_CONF": KEEP_MEMORY}
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": "lo"}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return os.environ | group | place | threads | allocator


def _jemalloc() -> str:
    name = ctypes.util.find_library("jemalloc")
    if name is None:
        raise SystemExit("jemalloc: not installed; on Debian, apt-get install libjemalloc2")
    return name


def record_model(name: str, out: Path) -> None:
    """Record one process start of one model."""
    ranks, script = (MODELS | VARIANTS)[name]
    command = [*_wire(name), sys.executable, __file__, "launch", str(ranks), *script]
    command += ["--steps", str(STEPS)]
    capture(command, out, steps=TRACED, warm_up=WARM_UP, untraced=UNTRACED)


def record_rates(name: str, out: Path, start: int) -> None:
    """Record one process start of one table of rates."""
    out.mkdir(parents=True)
    script = str(Path(__file__).with_name("host_rates.py"))
    ranks = (RATES | WIRED)[name]
    command = [*_wire(name), sys.executable, __file__, "launch", str(ranks), script, name]
    code = subprocess.call([*command, str(out), str(start)])
    if code:
        raise SystemExit(f"{name}: failed with exit code {code}")


def _wire(name: str) -> list[str]:
    """Command prefix: empty, or a network namespace with a slow loopback."""
    return SHAPED if name.endswith(WIRE) else []


def record(name: str, out: Path, start: int) -> None:
    """Record one process start, with the machine's other activity."""
    folder = out / name / f"start{start}"
    before = _machine()
    if name in MODELS | VARIANTS:
        record_model(name, folder)
    else:
        record_rates(name, folder, start)
    after = _machine()
    (folder / "host.json").write_text(json.dumps(_facts(name, start, before, after), indent=1))


def _machine() -> dict[str, float]:
    """Load average, and CPU seconds since boot: of the machine, stolen, and of this process."""
    ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    hertz = os.sysconf("SC_CLK_TCK")
    return {
        "load": os.getloadavg()[0],
        "wall": sum(ticks) / hertz,
        "stolen": ticks[7] / hertz,
        "busy": (sum(ticks) - ticks[3] - ticks[4] - ticks[7]) / hertz,
        "own": sum(use.ru_utime + use.ru_stime for use in own),
    }


def _facts(
    name: str, start: int, before: dict[str, float], after: dict[str, float]
) -> dict[str, object]:
    import torch

    spent = {key: after[key] - before[key] for key in ("wall", "stolen", "busy", "own")}
    cpu = [row for row in Path("/proc/cpuinfo").read_text().split("\n") if "model name" in row]
    return {
        "configuration": name,
        "start": start,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "load_before": before["load"],
        "load_after": after["load"],
        "core_seconds": round(spent["wall"], 2),
        "own_core_seconds": round(spent["own"], 2),
        "foreign_core_seconds": round(spent["busy"] - spent["own"], 2),
        "stolen_core_seconds": round(spent["stolen"], 2),
        "cpu": cpu[0].split(":")[1].strip(),
        "cores": len(cpu),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "allocator": f"{_jemalloc()} {KEEP_MEMORY}",
    }


def main() -> None:
    """Record everything, or one start of one configuration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--starts", type=int, default=8)
    bundled, variants = [*MODELS, *RATES], [*VARIANTS, *WIRED]
    parser.add_argument("--only", choices=[*bundled, *variants])
    parser.add_argument("--variants", action="store_true", help="those instead of what is bundled")
    parser.add_argument("--start", type=int, help="only this process start")
    args = parser.parse_args()
    for start in range(args.starts) if args.start is None else [args.start]:
        for name in [args.only] if args.only else variants if args.variants else bundled:
            record(name, args.out, start)


if __name__ == "__main__":
    if sys.argv[1:2] == ["launch"]:
        raise SystemExit(launch(int(sys.argv[2]), sys.argv[3:]))
    main()
