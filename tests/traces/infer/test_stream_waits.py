"""Waits between streams: inferred ones against generated programs whose truth is known."""

import random

import numpy as np
import pytest
from foretrace.sim.facts.ops import Kind
from foretrace.traces.infer.events.rank_trace import RankTrace
from foretrace.traces.infer.ranks.collective import is_collective
from foretrace.traces.infer.waits.host_waits import LaunchOrder, host_waits
from foretrace.traces.infer.waits.launches import launches
from foretrace.traces.infer.waits.stream_waits import stream_waits

COMPUTE, SIDE, NETWORK = 7, 22, 20


class Program:
    """A random training-like program on three streams, run as CUDA would; times in µs."""

    def __init__(self, script, seed, *, records, resolved=False):
        self.random, self.s = random.Random(seed), script()
        self.records, self.resolved = records, resolved
        self.now, self.free = 10.0, dict.fromkeys((COMPUTE, SIDE, NETWORK), 0.0)
        self.ends, self.truth, self.kernels = [], set(), 0
        self.waiting: list[int] = []  # what the next launch waits for
        self.last = dict.fromkeys(self.free)
        self.outstanding: list[int] = []
        self.order: list[int] = []
        self.events: dict[int, int] = {}  # kernel to the correlation of its record

    def tick(self, least=1.0, most=30.0):
        self.now = round(self.now + self.random.uniform(least, most), 3)

    def launch(self, stream, least, most):
        call, k = self.now, self.kernels
        ready = max([call + 5.003, self.free[stream], *(self.ends[w] for w in self.waiting)])
        start = round(ready + self.random.uniform(0.1, 1.2), 3)
        lasts = round(self.random.uniform(least, most), 3)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if stream == NETWORK else "gemm"
        self.s.launch(call, start, lasts, stream=stream, name=name, call=2.0)
        self.truth |= {(k, w) for w in self.waiting}
        self.ends.append(round(start + lasts, 3))
        self.free[stream], self.last[stream], self.kernels = self.ends[k], k, k + 1
        self.waiting = []
        self.now = round(call + 2.001, 3)
        self.tick()
        return k

    def record(self, k):
        """Record an event after kernel `k`, which is the last of its stream."""
        if self.records:
            self.events[k] = self.s.call("cudaEventRecord", self.now, 0.5)
        self.tick(1, 3)

    def wait(self, stream, k, awaited_stream):
        c = self.s.call("cudaStreamWaitEvent", self.now, 0.5)
        if self.resolved:
            self.s.add(
                "cuda_sync",
                "Stream Wait Event",
                self.now,
                0.5,
                pid=0,
                tid=stream,
                cuda_sync_kind="Stream Wait Event",
                stream=stream,
                correlation=c,
                wait_on_stream=awaited_stream,
                wait_on_cuda_event_record_corr_id=self.events[k],
            )
        self.waiting.append(k)
        self.tick(1, 3)

    def run(self, steps):
        self.launch(COMPUTE, 5, 60)
        for _ in range(steps):
            getattr(
                self,
                self.random.choice(("compute", "compute", "reduce", "reduce", "finish", "side")),
            )()
        while self.outstanding:
            self.finish()
        return self.s

    def compute(self):
        self.launch(COMPUTE, 5, 60)

    def reduce(self):
        """Gradients are ready: the network's stream waits for the computing one."""
        k = self.last[COMPUTE]
        self.record(k)
        self.wait(NETWORK, k, COMPUTE)
        self.outstanding.append(self.launch(NETWORK, 40, 200))
        self.record(self.outstanding[-1])

    def finish(self):
        """The oldest collective is waited for, then used."""
        if self.outstanding:
            self.compute()
            self.wait(COMPUTE, self.outstanding.pop(0), NETWORK)
            self.compute()

    def side(self):
        """A helper stream does something that computing then needs."""
        self.launch(SIDE, 5, 30)
        k = self.last[SIDE]
        self.record(k)
        self.wait(COMPUTE, k, SIDE)
        self.compute()


def found_waits(trace):
    events = RankTrace(trace, 0)
    work = launches(events)
    waits = stream_waits(events, work, LaunchOrder(events, work), is_collective(events, work))
    number = {int(r): i for i, r in enumerate(np.argsort(events.start[work.call]))}
    return {
        (number[a], number[b])
        for a, b in zip(waits.work.tolist(), waits.awaited.tolist(), strict=True)
    }, waits


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("records", [True, False])
def test_waits_inferred_from_the_order_of_calls_are_the_true_ones(script, tmp_path, seed, records):
    program = Program(script, seed, records=records)
    found, waits = found_waits(program.run(60).read(tmp_path))
    assert found == program.truth
    assert waits.inferred == len(program.truth)
    assert len(waits.unresolved) == 0


@pytest.mark.parametrize("seed", range(10))
def test_resolved_waits_are_taken_as_they_are(script, tmp_path, seed):
    program = Program(script, seed, records=True, resolved=True)
    found, waits = found_waits(program.run(60).read(tmp_path))
    assert found == program.truth
    assert waits.inferred == 0


def test_no_inferred_wait_contradicts_a_recorded_time(script, tmp_path):
    s = script()
    s.launch(0, 5, 500, stream=NETWORK, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    s.call("cudaStreamWaitEvent", 10, 1)
    s.launch(20, 25, 5, stream=COMPUTE)  # began long before the collective ended
    found, waits = found_waits(s.read(tmp_path))
    assert found == set()
    assert len(waits.unresolved) == 1


def test_a_wait_of_one_thread_holds_for_the_stream_whoever_launches_next(script, tmp_path):
    """Autograd's thread waits for the collective; the main thread launches the optimizer."""
    s = script()
    s.launch(0, 5, 10, stream=COMPUTE, tid=2)
    s.call("cudaStreamWaitEvent", 8, 1, tid=2)
    s.launch(10, 16, 200, stream=NETWORK, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", tid=2)
    s.call("cudaStreamWaitEvent", 20, 1, tid=2)
    s.launch(30, 217, 5, stream=COMPUTE, tid=1)
    found, _ = found_waits(s.read(tmp_path))
    assert found == {(1, 0), (2, 1)}


@pytest.mark.parametrize(
    ("kind", "args", "awaited"),
    [
        ("cudaStreamSynchronize", {"stream": SIDE}, "side"),
        (
            "cudaEventSynchronize",
            {"wait_on_stream": COMPUTE, "wait_on_cuda_event_record_corr_id": 3},
            "first",
        ),
        ("cudaDeviceSynchronize", {}, "second"),
    ],
)
def test_a_resolved_host_wait_is_for_what_the_profiler_says(script, tmp_path, kind, args, awaited):
    s = script()
    s.step(1, 0, 200)
    s.op("train", 0, 200)
    s.launch(1, 6, 20, stream=COMPUTE, name="first")
    s.launch(5, 10, 40, stream=SIDE, name="side")
    s.call("cudaEventRecord", 9, 1)
    s.launch(12, 26, 60, stream=COMPUTE, name="second")
    c = s.call(kind, 20, 70)
    s.add("cuda_sync", kind, 20, 70, pid=0, tid=0, correlation=c, cuda_sync_kind=kind, **args)
    trace = s.read(tmp_path)
    events = RankTrace(trace, 0)
    work = launches(events)
    found = host_waits(events, work, LaunchOrder(events, work))
    names = {events.text(int(work.row[k])) for k in found.work}
    assert awaited in names
    assert names <= {awaited, "side"}
    assert found.inferred == 0


def test_collectives_wait_for_their_gradients_in_the_graph(script, tmp_path, replay):
    program = Program(script, 5, records=True)
    graph = program.run(40).read(tmp_path).graph()
    ops = graph.ops
    slower = ops.replace(
        duration=np.where(ops.kind == Kind.COMPUTE, ops.duration * 3, ops.duration)
    )
    together = ops.kind == Kind.COLLECTIVE
    later = replay(graph.with_ops(slower))[0] - replay(graph)[0]
    assert (later[together] > 0).all()
