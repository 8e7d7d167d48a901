"""What a recorded run would have taken with another GPU, from the raw file alone.

Written from the format and from common sense, and from nothing of the project's own: it walks
once over the events of one rank by their recorded times, and keeps how much earlier or later each
thread and each GPU stream would have come. Threads that launch nothing are left out, but for the
main one. Times are in ms.

    python tests/helpers/raw_what_if.py FILE...
"""

import bisect
import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from itertools import pairwise

WORK = ("cpu_op", "operator")
CALL = ("cuda_runtime", "runtime", "cuda_driver", "hip_runtime")
GPU = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
SYNC = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize")
WAIT_EVENT = re.compile(r"(cuda|hip)StreamWaitEvent")
STEP = re.compile(r"ProfilerStep#\d+$")
QUEUE = 1000  # launches under way: CUDA takes no more
SLOW = 50.0  # us: a launch that takes longer did not just launch
UNEXPLAINED = 20.0  # us


class Raw:
    """Host threads and GPU work of one file, times in us from the first event."""

    def __init__(self, path):
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        events = [e for e in events if e.get("ph") == "X" and e.get("cat")]
        self.zero = min(float(e["ts"]) for e in events)
        rows = [(e["cat"].lower(), self._row(e)) for e in events]
        self.marks = sorted(r for c, r in rows if c != "gpu_user_annotation" and STEP.match(r[3]))
        gpu = sorted(r for c, r in rows if c in GPU)
        self.calls = sorted(r for c, r in rows if c in CALL)
        host = sorted(r for c, r in rows if c in (*CALL, *WORK))
        self.autograd = {r[2] for r in host if r[3].startswith("autograd::engine")}
        by_correlation = {}
        for r in self.calls:
            if r[4] not in (None, 0, -1):
                by_correlation.setdefault(r[4], r)
        self.work = [(g, by_correlation.get(g[4])) for g in gpu]
        self.threads = self._threads(host)
        self.busy = {t: _union([r for r in host if r[2] == t]) for t in self.threads}

    def _row(self, e):
        """(start, end, thread or stream, name, correlation)."""
        start, args = float(e["ts"]) - self.zero, e.get("args", {})
        where = args.get("stream") if e["cat"].lower() in GPU else (str(e["pid"]), str(e["tid"]))
        return (start, start + float(e["dur"]), where, e["name"], args.get("correlation"))

    def _threads(self, host):
        """The main thread, then those that launch GPU work."""
        count = Counter(r[2] for r in host)
        stepping = [self.marks[0][2]] if self.marks else []
        calm = [t for t, _ in count.most_common() if t not in self.autograd]
        main = next(iter([*stepping, *calm, *count]))
        launching = {call[2] for _, call in self.work if call}
        return [main, *(launching - {main})]

    @property
    def window(self):
        """Start and end of the steps; of the whole where none are marked."""
        if self.marks:
            return self.marks[0][0], self.marks[-1][1]
        spans = [s for t in self.threads for s in self.busy[t]]
        return min(s for s, _ in spans), max(e for _, e in spans)


def _union(rows):
    """Spans in which any of the rows ran; rows by start."""
    spans = []
    for start, end, *_ in rows:
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return spans


def busy_share(raw):
    """Share of the time from the first to the last of the GPU's work in which it works."""
    spans = _union([g for g, _ in raw.work])
    return sum(e - s for s, e in spans) / (spans[-1][1] - spans[0][0])


class Walk:
    """One walk over the events with the GPU's work `factor` times as long."""

    def __init__(self, raw, factor):
        self.raw, self.factor = raw, factor
        self.begin, self.finish = raw.window
        self.shift = dict.fromkeys(raw.threads, 0.0)  # of each thread: would be minus was
        self.ended = {}  # number of the work to when it would have ended
        self.stream_end = {}  # stream to (was, would be) of its last end
        self.pending = defaultdict(list)  # thread to its wait calls since its last launch
        self.by_end = sorted((g[1], k) for k, (g, _) in enumerate(raw.work))
        self.spans = _union([g for g, _ in raw.work])
        self.starts = [s for s, _ in self.spans]
        launched = [g[0] - c[0] for g, c in raw.work if c]
        self.latency = min(max(min(launched, default=0.0), 0.0), UNEXPLAINED)

    def _busy(self, start, end):
        """Time between two instants in which the GPU worked."""
        total, at = 0.0, max(bisect.bisect(self.starts, start) - 1, 0)
        while at < len(self.spans) and self.spans[at][0] < end:
            total += max(min(self.spans[at][1], end) - max(self.spans[at][0], start), 0.0)
            at += 1
        return total

    def run(self):
        """Duration, ms."""
        items = [(g[0], 1, k) for k, (g, _) in enumerate(self.raw.work) if self._counts(k)]
        items += [(c[1], 2, c) for c in self.raw.calls if c[2] in self.shift]
        items += [(c[0], 0, c) for c in self.raw.calls if WAIT_EVENT.match(c[3])]
        for t, busy in self.raw.busy.items():
            items += [(b[0], -1, (t, a[1], b[0])) for a, b in pairwise(busy)]
            items += [(busy[0][0], -1, (t, self.begin, busy[0][0]))] if busy else []
        self.launched = self._launched()
        self.called = sorted(c[0] for c in self.launched)
        self.done = sorted(max(self.raw.work[k][0][1] for k in ks) for ks in self.launched.values())
        self.launch_shift = {}
        items += [(c[0], 0.5, c) for c in self.launched]
        for _, what, of in sorted(items, key=lambda i: (i[0], i[1])):
            (self._resume, self._note, self._launch, self._work, self._return)[
                {-1: 0, 0: 1, 0.5: 2, 1: 3, 2: 4}[what]
            ](of)
        host = self.finish + self.shift[self.raw.threads[0]]
        return (max([host, *self.ended.values()]) - self.begin) / 1e3

    def _counts(self, k):
        """Whether work was launched in the steps, or was under way when they began."""
        work, call = self.raw.work[k]
        if call is None or call[0] < self.begin:
            return work[1] > self.begin
        return call[0] < self.finish

    def _launched(self):
        calls = {}
        for k, (_, call) in enumerate(self.raw.work):
            if call is not None:
                calls.setdefault(call, []).append(k)
        return calls

    def _resume(self, of):
        """A thread goes on after a pause: if another one stopped in it, that one let it go on."""
        thread, paused, time = of
        last, giver = paused, None
        for other, busy in self.raw.busy.items():
            if other == thread:
                continue
            at = bisect.bisect(busy, [time, float("inf")]) - 1
            if at >= 0 and last < busy[at][1] <= time:
                last, giver = busy[at][1], other
        if giver is not None:
            least = paused + self.shift[thread] - time
            self.shift[thread] = max(self.shift[giver], least)

    def _note(self, call):
        self.pending[call[2]].append(call)

    def _launch(self, call):
        self.launch_shift[call] = self.shift.get(call[2], 0.0)

    def _work(self, k):
        (start, end, stream, _, _), call = self.raw.work[k]
        begins = max(start, self.begin)
        was, would = self.stream_end.get(stream, (self.begin, self.begin))
        first = stream not in self.stream_end
        if call is not None and call[0] >= self.begin:
            issued = call[0] + min(self.latency, start - call[0])
            was = max(was, issued)
            would = max(would, issued + self.launch_shift.get(call, 0.0))
        told = False
        if call is not None:
            told = bool(self.pending[call[2]])
            for wait in self.pending.pop(call[2], []):
                j = self._awaited(wait, stream, start)
                if j is not None:
                    was = max(was, self.raw.work[j][0][1])
                    would = max(would, self.ended[j])
        late = max(begins - was, 0.0)
        gpu = self._busy(was, begins) > late / 2 or (first and told)
        would += late * self.factor if late > UNEXPLAINED and gpu else late
        self.ended[k] = would + (end - begins) * self.factor
        self.stream_end[stream] = end, self.ended[k]

    def _awaited(self, wait, stream, start):
        """The work of another stream that ended last before `start`, launched before the wait."""
        for k in self._ended_in(-1.0, start):
            if self.raw.work[k][0][2] != stream and self._before(k, wait[0]):
                return k
        return None

    def _ended_in(self, start, end):
        """Work that ended after `start` and no later than `end`, the last first."""
        at = bisect.bisect(self.by_end, (end, len(self.by_end))) - 1
        while at >= 0 and self.by_end[at][0] > start:
            if self.by_end[at][1] in self.ended:
                yield self.by_end[at][1]
            at -= 1

    def _return(self, call):
        """A call returns: if it waited, it would have returned once that was done."""
        start, end, thread, name, _ = call
        own = self.launched.get(call, [])
        done = self._ended_in(start, end)
        if SYNC.match(name):
            done = (k for k in done if self._before(k, start))
        elif "Memcpy" in name and own and self.raw.work[own[0]][0][1] <= end:
            done = iter(own[:1])
        elif "Memcpy" in name and own and "(Pageable ->" in self.raw.work[own[0]][0][3]:
            stream = self.raw.work[own[0]][0][2]
            done = (k for k in done if self.raw.work[k][0][2] == stream)
        elif not (own and end - start > SLOW and self._under_way(end) >= QUEUE):
            return
        last = next(done, None)
        if last is not None:
            rest = end - self.raw.work[last][0][1]
            would = max(start + self.shift[thread], self.ended[last]) + rest
            self.shift[thread] = would - end

    def _before(self, k, time):
        call = self.raw.work[k][1]
        return call is None or call[0] < time

    def _under_way(self, time):
        """Launches that were called before an instant, and had not ended."""
        return bisect.bisect(self.called, time) - bisect.bisect(self.done, time)


def what_if(raw, factor):
    """Duration with the GPU's work `factor` times as long, ms."""
    return Walk(raw, factor).run()


if __name__ == "__main__":
    for path in sys.argv[1:]:
        raw = Raw(path)
        times = ", ".join(f"x{f:g} {what_if(raw, f):.2f} ms" for f in (1, 0, 0.5, 2))
        print(f"{path}: GPU busy {busy_share(raw):.1%}; {times}")
