"""A plug-in with a server, a faulty section and an online backend, and scenarios of it."""

PLUGIN = '''
"""A server whose requests are submitted by a process, and what may fail about it."""
from foretrace import Backend, Timing, backend, process, workload
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.metric import Metric
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.periodic import Periodic
from foretrace.sim.run.workload import Workload


@backend("answer-millisecond")
class Millisecond(Backend):
    """Every op takes 1 ms."""

    def timing(self, ops, now=0.0):
        return Timing.of([1e-3] * len(ops))


@backend("answer-online")
class Online(Millisecond):
    """A device that is asked while the run goes on."""

    online = True


@process("answer-pause")
class Pause:
    """Waits a while, and only observes."""

    def __call__(self, sim):
        yield sim.wait(2e-3)


@workload("answer-server")
class Server(Workload):
    """Requests of an open stream, each two ops on a GPU.

    Parameters
    ----------
    requests : int
        Number of requests.
    """

    metrics = (
        Metric("latency", "s", "From arrival to end.", statistics=("p50", "p99"), better="lower"),
    )
    headline = "latency.p99"

    def __init__(self, *, requests: int = 100):
        self.requests = requests

    def start(self, job):
        random = job.random("arrivals")

        def serve(sim):
            build = Builder("request")
            first = build.op(Kind.COMPUTE)
            build.op(Kind.COMPUTE, after=[first])
            prepared = sim.prepare(build.graph())
            for _ in range(self.requests):
                yield sim.wait(float(random.exponential(2.2e-3)))
                sim.start([lambda sim: one(sim, prepared)])

        def one(sim, prepared):
            began = sim.now
            yield sim.submit(prepared).done
            sim.emit("latency", sim.now - began)

        return serve

    def measure(self, result):
        return dict(result.emitted.samples)


@workload("answer-steps")
class Steps(Periodic):
    """Iterations of three ops in a row.

    Parameters
    ----------
    steps : int
        Number of iterations.
    """

    def __init__(self, *, steps: int = 4):
        self.steps = steps

    def start(self, job):
        build, last = Builder("steps"), []
        for step in range(self.steps):
            for _ in range(3):
                last = [build.op(Kind.COMPUTE, period=step, after=last)]
        return build.graph()
'''
FAULTY = '''
from foretrace.reports.section import section


@section("answer-faulty", title="Faulty")
def faulty(study):
    """A section with a mistake."""
    raise KeyError("of a test")
'''
SERVER = """\
foretrace: 1
name: server
question: How long do requests take?
plugins: [mine.py]
workload: {type: answer-server, requests: 300}
cluster:
  nodes: 1
  node: {gpu: {streams: 1}, host: {cores: 1}}
backends: {"node*.gpu*": {use: answer-millisecond}}
"""
