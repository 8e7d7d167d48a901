"""Names of the calls of GPU runtimes that wait or launch kernels, over all vendors.

A call is named after its library (``cuda``, ``hip``, ``musa``, ``ze``, ``syn``, …); CANN writes its
layer before an ``@``.
"""

from __future__ import annotations

import re

_OF = r"(\w+@)?"
DEVICE_SYNC = re.compile(
    rf"{_OF}([a-z]+(Device|Ctx|Context)Synchronize|\w*SynchronizeDevice|(device_?)?[sS]ynchronize$)"
)
STREAM_SYNC = re.compile(
    rf"{_OF}([a-z]+(Stream|Queue|CommandQueue)(Synchronize|Sync|Finish)|\w*SynchronizeStream)"
)
EVENT_SYNC = re.compile(rf"{_OF}([a-z]+Event(Host)?Synchronize|\w*SynchronizeEvent)")
KERNEL_LAUNCH = re.compile(rf"{_OF}\w*(Launch(Cooperative)?Kernel|KernelLaunch)")
"""Calls of which each starts one piece of work."""
OTHER_LAUNCH = re.compile(rf"{_OF}[a-z]+GraphLaunch|Node@launch|runFunction$")
"""Calls that start any number of pieces of work."""
STARTS_WORK = re.compile(rf"{_OF}\w*(Launch|Memcpy|Memset)|runFunction$|Node@launch")
"""Calls that start kernels, copies or fills."""
CAPTURE = re.compile(rf"{_OF}[a-z]+Stream(Begin|End)Capture")
"""Borders of a stream's capture into a graph, in which launches start no work."""
HOST_WAIT = re.compile(
    r"(aten::(item|_local_scalar_dense)|record_param_comms)$|.*[sS]ynchronize", re.ASCII
)
"""Operators and calls in which the host only waits for other work."""
