"""Example of a medium: messages queue at each port and are forwarded after complete reception.

A message crosses the components of its op in the order that the backend gives. A port sends one
message at a time at its full rate, first come, first served (Kleinrock, Communication Nets, 1964).
A message that is stopped on its way is sent again from its first port.
"""

from foretrace.sim.engine_api.interface import NO_LIMIT, ONE
from foretrace.sim.engine_api.medium_api import Kernels, Medium, medium
from foretrace.sim.kernel.jit import jit_as_argument, jit_without_refcounts
from foretrace.sim.media import flow, queues
from foretrace.sim.media.queues import FIRST, NONE, PORT, RATE


class Ports:
    """Plain Python version of the medium: a queue per port; each port sends its first message."""

    def __init__(self, rates):
        self.rates, self.now = rates, 0
        self.queue = [[] for _ in rates]
        self.flow, self.ahead, self.left = {}, {}, {}  # of each message; ahead: ports to cross

    def start(self, flows):
        for message in flows:
            self.flow[message.op], self.ahead[message.op] = message, list(message.usage)
            self._enter(message.op)

    def stop(self, op):
        self.queue[self.ahead[op][0]].remove(op)
        return self.flow[op].work

    def change(self, port, rate):
        self.rates[port] = rate

    def next(self):
        ends = (self.now - -self.left[op] // x for _, op, x in self._sending() if x)
        return min(ends, default=None)

    def advance(self, to):
        sending, over = self._sending(), []
        for _, op, x in sending:
            self.left[op] -= x * (to - self.now)
        self.now = to
        for port, op, _ in sending:
            if self.left[op] <= 0:
                del self.queue[port][0], self.ahead[op][0]
                if self.ahead[op]:
                    self._enter(op)
                else:
                    over.append(op)
        return over

    def rate(self, op, port):
        flow = self.flow[op]
        alone = self.rates[port] * ONE // flow.usage[port] if self.queue[port][:1] == [op] else 0
        return alone if flow.limit == NO_LIMIT else min(alone, flow.limit)

    def _enter(self, op):
        self.queue[self.ahead[op][0]].append(op)
        self.left[op] = self.flow[op].work

    def _sending(self):
        """Ports that are sending, each with its message and the current rate."""
        return [(p, line[0], self.rate(line[0], p)) for p, line in enumerate(self.queue) if line]


# The same over arrays. Of a port: the rate of its first message since a tick. Of a message: the
# use that it is at, hence its port, and what is left of it there.
SPEED, SINCE = range(PORT, PORT + 2)
AT, LEFT_HI, LEFT_LO = range(queues.BEHIND + 1, queues.BEHIND + 4)


@jit_without_refcounts
def send(s, own, port, now):
    """Start to send the first message of a port at its current rate, and schedule the end."""
    ports, messages = own
    f, tick, ports[port, SPEED], ports[port, SINCE] = ports[port, FIRST], NONE, 0, now
    if f != NONE:
        ports[port, SPEED] = flow.rate_alone(s, f, messages[f, AT], ports[port, RATE])
        left = messages[f, LEFT_HI], messages[f, LEFT_LO]
        tick = flow.completion_tick(*left, ports[port, SPEED], now)
    queues.plan(ports, port, tick)


@jit_without_refcounts
def enter(s, own, f, now):
    port = flow.component(s, own[1][f, AT])
    own[1][f, LEFT_HI], own[1][f, LEFT_LO] = flow.work(s, f)
    if queues.join(own, port, f):
        send(s, own, port, now)


@jit_without_refcounts
def leave(s, own, f, now):
    port = flow.component(s, own[1][f, AT])
    if queues.leave(own, port, f):
        send(s, own, port, now)


@jit_as_argument
def settle(s, own, began, now):
    for f in began:
        own[1][f, AT] = flow.uses(s, f)[0]
        enter(s, own, f, now)
    return queues.next_tick(own[0])


@jit_as_argument
def advance(s, own, over, now):
    count = 0
    while NONE < queues.next_tick(own[0]) <= now:
        f = own[0][queues.next_port(own[0]), FIRST]
        leave(s, own, f, now)
        own[1][f, AT] += 1
        if own[1][f, AT] < flow.uses(s, f)[1]:
            enter(s, own, f, now)
        else:
            over[count] = f
            count += 1
    return count


@jit_without_refcounts
def change(s, own, port, rate, now):
    ports, messages = own
    f, ports[port, RATE] = ports[port, FIRST], rate
    if f != NONE:
        left = messages[f, LEFT_HI], messages[f, LEFT_LO]
        left = flow.remaining_work(*left, ports[port, SPEED], now - ports[port, SINCE])
        messages[f, LEFT_HI], messages[f, LEFT_LO] = left
    send(s, own, port, now)


@jit_without_refcounts
def rate(s, own, f, port):
    return own[0][port, SPEED] if own[0][port, FIRST] == f else 0


@medium("store-and-forward")
class StoreAndForward(Medium):
    """Store-and-forward medium: each port has a first-come, first-served queue of messages."""

    kernels, transfer_columns, one_way = Kernels(settle, advance, leave, change, rate), 4, True

    def plain(self, rates):
        return Ports(rates)

    def ports(self, rates):
        return queues.new_ports(rates, 2)
