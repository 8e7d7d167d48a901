"""The kernel that runs already, in namespaces of ours: bridges and sockets without being root.

No RDMA, no virtual time: the kernel is the one that runs already, and its clock is the wall's.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

ROOTLESS = ["--user", "--map-root-user"]


def command(settings: Mapping[str, str]) -> list[str]:
    """An agent in a network and mount namespace of its own; ``settings`` has nothing to set."""
    if settings:
        raise ValueError(f"lab: host takes no settings, has {dict(settings)}")
    agent = shlex.join([sys.executable, "-P", "-m", "foretrace.hil.agent", "--stdio"])
    script = f"mount -t tmpfs run /run && mkdir /run/netns && exec {agent} <&3 >&4"
    user = [] if os.geteuid() == 0 else ROOTLESS
    return ["/usr/bin/unshare", *user, "--net", "--mount", "--", "/bin/sh", "-c", script]
