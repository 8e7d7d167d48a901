"""Interface of a driver: it times ops by executing them on a device.

To write a driver, subclass ``Driver``, list the supported ops, and implement ``probe``,
``describe``, ``open``, ``timing`` and ``close``. Register it under the name that scenarios use.
Importing the driver's file must require only NumPy; import other libraries in ``probe`` and
``open``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..sim.errors import DriverFault
from ..sim.facts.signature import Signature, parse_signature
from ..sim.registry import register
from .peer_link import Exchange, Message
from .sample import Request, Sample

if TYPE_CHECKING:
    from ..sim.facts.system import System

Sharing = Literal["exclusive", "solo", "concurrent"]
Kind = Literal["missing", "denied", "unsupported", "broken", "busy"]
Spec = Mapping[str, Any]


@dataclass(frozen=True)
class Ready:
    """Result of a successful probe: the driver works here and has executed one real op.

    Parameters
    ----------
    devices : names that ``open`` accepts as ``device``; the first is the default
    facts : library versions and other information for the reader
    """

    devices: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """Result of a failed probe: the driver does not work here.

    Parameters
    ----------
    kind : ``missing`` (not present), ``denied`` (no permission), ``unsupported`` (present but
        cannot do it), ``broken`` (should work but does not), ``busy`` (another run measures it)
    reason : what was tried, and what the machine reported
    cure : what the user can do about it

    Examples
    --------
    >>> str(Missing("missing", "no module named torch", "pip install torch").fault())
    'missing: no module named torch; pip install torch'
    """

    kind: Kind
    reason: str
    cure: str

    def fault(self) -> DriverFault:
        """Build a DriverFault with the same text, to raise."""
        return DriverFault(self.kind, f"{self.reason}; {self.cure}")

    @classmethod
    def of(cls, fault: DriverFault) -> Missing:
        """Result of a probe that failed with this fault.

        >>> Missing.of(DriverFault("missing", "no ip here; apt install iproute2")).cure
        'apt install iproute2'
        """
        reason, _, cure = fault.message.rpartition("; ")
        kinds: dict[str, Kind] = {k: k for k in get_args(Kind)}
        return cls(kinds.get(fault.kind, "broken"), reason or cure, cure)


class Driver:
    """Base class of drivers. The constructor takes no argument and touches no device.

    Attributes
    ----------
    name : str
        Registered name, used in scenarios.
    ops : tuple of str
        Allow-list: ``kind:name`` of every op that the driver can time.
    clock, metric : str
        Clock that measures its samples (``wall``, ``cpu``, ``icount``, ``timetravel`` or
        ``device``), and what their times mean (``completion``, ``half_rtt``, ``message_rate``,
        ``bandwidth`` or ``one_way``; see ``Sample``). A driver may set both in ``open``.
    sharing : str
        What a coupled run may assume about concurrent ops. ``exclusive``: one op at a time.
        ``solo``: an op is measured alone and contention is modelled. ``concurrent``: ``together``
        measures several ops in flight.
    realtime : bool
        True if the device has timers on a wall clock. A simulation cannot pause it, so only replay
        mode is possible.
    limit : float
        Time limit of one call, in s; enforced if the driver runs in its own process.
    exchange : callable or None
        Sends a message to the driver at the other end and returns its reply. An agent sets it
        before ``open``.
    """

    name: str = ""
    ops: tuple[str, ...] = ()
    clock: str = "wall"
    metric: str = "completion"
    sharing: Sharing = "exclusive"
    realtime: bool = False
    limit: float = math.inf
    exchange: Exchange | None = None

    def probe(self) -> Ready | Missing:
        """Execute one real op to find out if this driver works here. Must not raise."""
        raise TypeError(f"{type(self).__name__} has no probe(); implement it")

    def describe(self) -> dict[str, str]:
        """Provenance of the samples: the device, and versions of the software that drives it."""
        return {}

    def open(self, spec: Spec) -> None:
        """Check the settings in ``spec`` and acquire the device, or choose what each op will open.

        Unknown settings are refused (see ``checked``).
        """
        checked(spec, {})

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Execute each op ``n`` times alone and return one sample per request, in order.

        Each repeat starts from the requested context. An op that changes the device is set up and
        undone here, outside the timed part.
        """
        return [self.time_op(request) for request in requests]

    def time_op(self, request: Request) -> Sample:
        """Sample of one op executed ``n`` times alone."""
        raise TypeError(f"{type(self).__name__} has no time_op(); implement it")

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Execute all ops concurrently for ``n`` rounds; returns one sample per request, in order.

        Only drivers with ``sharing = "concurrent"`` implement it.
        """
        raise DriverFault(
            "unsupported",
            f"{self.name}: times only one op at a time; declare sharing 'solo' instead",
        )

    def peer(self, message: Message) -> Message:
        """Handle a message from the driver on another host that uses this one as its peer."""
        raise DriverFault(
            "unsupported", f"{self.name}: cannot be the far end of a transfer from another host"
        )

    def sample(self, request: Request, ns: ArrayLike, **more: Any) -> Sample:
        """Build a sample of an op from its measured times; ``more`` has flags and facts."""
        times = np.asarray(ns, np.float64)
        return Sample(request.signature, times, self.clock, self.metric, request.key[1], **more)

    def sample_of_probe(self, spec: Spec, signature: str, cure: str) -> Sample | Missing:
        """Sample of one op, for use in ``probe``; a ``Missing`` with advice ``cure`` if that fails.

        The driver is opened with settings ``spec`` before, and closed afterwards.
        """
        try:
            self.open(spec)
            return self.timing([Request(signature)])[0]
        except DriverFault as fault:
            return Missing.of(fault)
        except OSError as error:
            return Missing("broken", f"{signature}: {error}", cure)
        finally:
            self.close()

    def close(self) -> None:
        """Release what ``open`` acquired. Called once, also after a fault."""

    @classmethod
    def covers(cls, spec: Spec, system: System) -> tuple[str, ...]:
        """Names of components whose time a sample includes, besides its own component."""
        return ()

    def answers(self, signature: str) -> bool:
        """True if an op is on the allow-list. Attributes after the op's name are ignored.

        >>> class Copy(Driver):
        ...     ops = ("copy:h2h",)
        >>> Copy().answers("copy:h2h uint8[64]"), Copy().answers("copy:h2d uint8[64]")
        (True, False)
        """
        return signature_head(signature) in self.ops


def signature_head(signature: str) -> str:
    """Kind and name of an op, without attributes and operands.

    Raises ValueError if the text is not a signature.

    >>> signature_head("compute:aten::convolution stride=2 fp32[1x3x8x8] fp32[4x3x3x3]")
    'compute:aten::convolution'
    """
    parts = parse_signature(signature)
    return f"{parts.kind}:{parts.op}"


def parse_within_cap(signature: str, cap: int) -> Signature:
    """Parse the signature of an op; DriverFault if its operands exceed ``cap`` bytes.

    >>> parse_within_cap("copy:h2h uint8[64]", cap=32)
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: copy:h2h uint8[64]: its operands have ...
    """
    parts = parse_signature(signature)
    if parts.bytes > cap:
        raise DriverFault(
            "unsupported",
            f"{signature}: its operands have {parts.bytes} B; at most {cap} B are allowed",
        )
    return parts


def checked(spec: Spec, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Driver settings: ``defaults`` overridden by ``spec``.

    An unknown key or a value of the wrong type raises DriverFault.

    >>> checked({"core": 1}, {"core": 0, "pin": True})
    {'core': 1, 'pin': True}
    >>> checked({"cor": 1}, {"core": 0})
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: no setting 'cor'; it takes: core
    """
    for key, value in spec.items():
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise DriverFault("unsupported", f"no setting {key!r}; it takes: {known}")
        wanted = type(defaults[key])
        if not isinstance(value, (int, float) if wanted is float else wanted):
            raise DriverFault("unsupported", f"{key} is {value!r}; give a {wanted.__name__}")
    return {**defaults, **spec}


def check_choice(settings: Mapping[str, Any], key: str, allowed: Iterable[object]) -> None:
    """Refuse a setting that is none of the allowed values.

    >>> check_choice({"metric": "latency"}, "metric", ("completion", "half_rtt"))
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: metric is 'latency'; one of completion, half_rtt
    """
    if settings[key] not in (every := list(allowed)):
        known = ", ".join(map(str, every))
        raise DriverFault("unsupported", f"{key} is {settings[key]!r}; one of {known}")


DRIVERS: dict[str, type[Driver]] = {}
D = TypeVar("D", bound=type[Driver])


def driver(name: str) -> Callable[[D], D]:
    """Class decorator that registers a driver under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is already taken.
    """
    return register(DRIVERS, "drivers", name, "name")
