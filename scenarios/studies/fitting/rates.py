"""Fit of message rates: time per message of a stream by size, depth and queue pairs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ....hil.drivers.rdma.rdma import DEPTH, parse_op
from ....models.network.part.message_rate import MessageRate
from ....sim.errors import ScenarioError
from .curves import Curve, Floats
from .recording_rows import RATES, MeasuredRows

RATES_KIND = "rates"
GUESSES = {"latency": 2e-6, "bandwidth": 1e10, "service": 1e-7, "pair": 1e-7, "outstanding": 1e6}
UNBOUND = 1e18  # B outstanding: no limit that matters


@cache
def stream_numbers(signature: str) -> tuple[float, float, float]:
    """Message bytes, outstanding messages per queue pair, and queue pairs of a stream.

    >>> stream_numbers("send:rdma-write depth=4 qps=2 uint8[64]")
    (64.0, 4.0, 2.0)
    >>> stream_numbers("send:rdma-read uint8[8]")
    (8.0, 16.0, 1.0)
    """
    _, attributes, size = parse_op(signature)
    return float(size), float(attributes.get("depth", DEPTH)), float(attributes.get("qps", 1))


def require_no_streams(kind: str, data: MeasuredRows) -> None:
    """Raise an error for rows of message streams, for a part whose ops run alone.

    Raises
    ------
    ScenarioError
        The metric is a rate, or ops have several outstanding or concurrent messages.
    """
    if data.metric in RATES:
        raise ScenarioError(
            f"fit {kind}: the recording has {data.metric}, which depends on the number of "
            f"outstanding messages; give one of completion times, or run foretrace fit {RATES_KIND}"
        )
    for text in data.texts:
        if any(word.startswith(("depth=", "qps=", "flows=")) for word in text.split()):
            raise ScenarioError(
                f"fit {kind}: '{text}' has several concurrent messages, which this fit cannot "
                "separate from single ones; exclude it with --only"
            )


def _seconds(p: Mapping[str, float], *told: Floats) -> Floats:
    return MessageRate(**p).seconds(*told)


def _require_streams(data: MeasuredRows) -> None:
    if data.metric not in RATES:
        raise ScenarioError(
            f"fit {RATES_KIND}: the recording has {data.metric}; record with metric "
            f"{' or '.join(RATES)}"
        )


def _before_fit(settings: Mapping[str, Any]) -> dict[str, float]:
    """Parameters of a stream from its NIC: two latencies and one overhead per message.

    Parameters without a measurement get values that limit nothing.
    """
    if "bandwidth" not in settings:
        raise ScenarioError(
            f"fit {RATES_KIND}: the line rate is unknown; give a NIC of the catalog with --start, "
            "or the value with --know bandwidth='25 GB/s'"
        )
    alone = 2 * float(settings.get("latency", 0.0)) + float(settings.get("overhead", 0.0))
    kept = {name: float(settings[name]) for name in ("mtu", "header") if name in settings}
    return {
        "latency": alone,
        "bandwidth": float(settings["bandwidth"]),
        "service": 0.0,
        "pair": 0.0,
        "outstanding": UNBOUND,
        **kept,
    }


MESSAGE_RATES = Curve(
    kind=RATES_KIND, part="nic", form="foretrace-rates", guesses=GUESSES,
    usual=("latency", "bandwidth", "service", "pair"), draws=12, before=_before_fit,
    read_signature=stream_numbers, seconds=_seconds, check=_require_streams,
)  # fmt: skip
"""Fit of ``MessageRate``; ``shapes`` are combinations of size, depth and queue pairs."""
