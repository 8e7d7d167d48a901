"""A small study, run once: two ranks that compute and all-reduce, and one variant."""

import json

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study

SCENARIO = """\
foretrace: 1
name: small
question: Is <b>this</b> & that worth it?
workload:
  trace: {trace}
  recorded_on: {{device: epyc-zen4-core, nodes: 2, parallel: {{data: 2}}}}
cluster:
  nodes: 2
  node:
    gpu: {{model: epyc-zen4-core, count: 1}}
    host: epyc-zen4-vm
    nic: {{model: loopback-tcp, count: 1}}
  fabric: {{library: gloo}}
what_if:
  - name: quick
    set: {{cluster.node.nic.bandwidth: 100 GB/s}}
run: {{seed: 3, replicas: 10}}
"""


def events(rank):
    """Four steps with two kernels on one stream and a 4 MB all-reduce on another."""
    found, correlation = [], 0
    for step in range(4):
        at = 1000.0 * step
        found.append(event("user_annotation", f"ProfilerStep#{step}", at, 950.0))
        for name, start, took, stream, args in (
            ("gemm", at + 20, 300.0 + 10 * rank + step, 7, {}),
            ("ncclDevKernel_AllReduce_Sum_f32", at + 350, 200.0, 20, {
                "Collective name": "allreduce", "In msg nelems": 1_000_000,
                "Out msg nelems": 1_000_000, "Group size": 2, "dtype": "Float",
                "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
            }),
            ("gemm", at + 560, 200.0, 7, {}),
        ):  # fmt: skip
            correlation += 1
            found.append(
                event("cuda_runtime", "cudaLaunchKernel", start - 10, 5.0, correlation=correlation)
            )
            found.append(
                event(
                    "kernel",
                    name,
                    start,
                    took,
                    pid=0,
                    tid=stream,
                    stream=stream,
                    device=0,
                    correlation=correlation,
                    **args,
                )
            )
    return found


def event(kind, name, at, took, pid=1, tid=1, **args):
    return {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": took,
            "args": args}  # fmt: skip


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    """Text of the scenario, with its traces written."""
    folder = tmp_path_factory.mktemp("reports")
    for rank in range(2):
        document = {
            "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl", "pg_config": [
                {"pg_name": "0", "ranks": [0, 1], "backend_config": "nccl"}]},
            "traceEvents": events(rank),
        }  # fmt: skip
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return SCENARIO.format(trace=folder / "rank*.json")


@pytest.fixture(scope="session")
def small(described):
    """The study of two ranks."""
    return study(loads(described, file="small.yaml"))
