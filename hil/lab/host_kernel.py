"""Machine ``host``: an agent in namespaces of the running kernel, without root.

It has bridges and sockets only: no RDMA and no virtual time.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

ROOTLESS = ["--user", "--map-root-user"]


def command(settings: Mapping[str, str]) -> list[str]:
    """Command line of an agent in its own network and mount namespaces; accepts no settings."""
    if settings:
        raise ValueError(f"lab: host takes no settings, has {dict(settings)}")
    agent = shlex.join([sys.executable, "-P", "-m", "foretrace.hil.agent", "--stdio"])
    script = f"mount -t tmpfs run /run && mkdir /run/netns && exec {agent} <&3 >&4"
    user = [] if os.geteuid() == 0 else ROOTLESS
    return ["/usr/bin/unshare", *user, "--net", "--mount", "--", "/bin/sh", "-c", script]
