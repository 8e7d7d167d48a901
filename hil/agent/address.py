"""Addresses of agents, read from the user's own list and never from a scenario.

The list is ``~/.config/foretrace/agents.yaml`` (``$XDG_CONFIG_HOME`` is honoured)::

    agents:
      torch: {python: ~/venvs/torch/bin/python}                  # here, another Python
      gpu-node-01: {ssh: me@gpu-node-01, python: python3, agent: foretrace-agent.pyz}
      virtual: {lab: uml ends=5}                                 # a machine of the lab
      shared: {socket: /run/user/1000/ft.sock, token_file: ~/.config/foretrace/token}

``load: [FILE]`` lists files with the user's own drivers. ``environment: {KEY: VALUE}`` sets
environment variables of the agent's process.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...sim.errors import DriverFault, ScenarioError
from ..private_file import read_token
from .bundle import cached_bundle
from .local_agent import ONE_THREAD, agent_command
from .transport import Channel, connect_unix_socket, start_agent_process

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*")


@dataclass(frozen=True)
class Address:
    """Address of one agent: how to start it or connect to it.

    Parameters
    ----------
    name : name used in scenarios
    ssh : user and host; "" for this machine
    python : interpreter that has the driver's libraries; "" for the current one
    agent : path of the agent's file on the other machine; only with ``ssh``
    lab : virtual machine of the lab, with its settings
    socket, token_file : Unix socket of an agent that listens on this machine, and file of its token
    load : files that register the user's own drivers
    environment : environment variables added to the current ones

    Examples
    --------
    >>> Address("far", ssh="me@box", agent="foretrace-agent.pyz").command()[-3:]
    ['--', 'me@box', 'python3 foretrace-agent.pyz --stdio']
    >>> Address("bad", ssh="-oProxyCommand=x")
    Traceback (most recent call last):
    foretrace.sim.errors.ScenarioError: agent bad: ssh is '-oProxyCommand=x'; write user@host
    """

    name: str = "here"
    ssh: str = ""
    python: str = ""
    agent: str = ""
    lab: str = ""
    socket: str = ""
    token_file: str = ""
    load: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.ssh and not PLAIN.fullmatch(self.ssh):
            raise ScenarioError(f"agent {self.name}: ssh is {self.ssh!r}; write user@host")
        if bool(self.agent) != bool(self.ssh):
            raise ScenarioError(
                f"agent {self.name}: 'ssh' and 'agent' go together; 'foretrace hil agent --bundle' "
                "writes the file to copy there"
            )
        if bool(self.socket) != bool(self.token_file) or (self.socket and self.ssh):
            raise ScenarioError(
                f"agent {self.name}: 'socket' and 'token_file' go together, without 'ssh'"
            )

        beside = ("ssh", "python", "agent", "socket", "token_file", "load", "environment")
        ignored = [key for key in beside if self.lab and getattr(self, key)]
        if ignored:
            raise ScenarioError(
                f"agent {self.name}: 'lab' boots a machine with drivers of its own, which "
                f"ignores {', '.join(ignored)}; remove that, or 'lab'"
            )

    def command(self) -> list[str]:
        """Command line that starts the agent; for ssh, the remote command is shell-quoted."""
        loads = [word for file in self.load for word in ("--load", os.path.expanduser(file))]
        if self.ssh:
            words = ["env", *(f"{k}={v}" for k, v in self.environment.items())]
            there = [*(words if self.environment else ()), self.python or "python3", self.agent]
            line = shlex.join([*there, "--stdio", *loads])
            return ["ssh", "-T", "-o", "BatchMode=yes", "--", self.ssh, line]
        if self.python:
            return [os.path.expanduser(self.python), str(cached_bundle()), "--stdio", *loads]
        return [*agent_command(), "--stdio", *loads]

    def open(self) -> Channel:
        """Start the agent or connect to it; returns the channel to it."""
        if self.socket:
            token = read_token(Path(self.token_file).expanduser())
            return connect_unix_socket(Path(self.socket).expanduser(), token)
        if self.ssh:
            return start_agent_process(self.command(), mortal=False)
        return start_agent_process(self.command(), {**ONE_THREAD, **self.environment})


class AgentAddresses(dict[str, Address]):
    """Addresses of agents by name.

    An unknown name raises DriverFault and suggests the nearest name.
    """

    def __missing__(self, name: str) -> Address:
        near = get_close_matches(name, self, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"write it into {agents_file_path()}"
        raise DriverFault("missing", f"no agent named '{name}'; {hint}")


def agents_file_path() -> Path:
    """Path of the user's list of agents."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "foretrace" / "agents.yaml"


def listed_agents() -> AgentAddresses:
    """Addresses of all agents in the user's list; empty if the file does not exist.

    Raises
    ------
    ScenarioError
        The file is not a list of agents, or other users may write it. It decides which programs are
        started, so only its owner may change it.
    """
    if not agents_file_path().exists():
        return AgentAddresses()
    status = agents_file_path().stat()
    if status.st_mode & 0o022 or status.st_uid not in (os.getuid(), 0):
        raise ScenarioError(
            f"{agents_file_path()}: other users may write this file, which decides which programs "
            "are started; run chmod go-w on it, and be its owner"
        )
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        entries = YAML(typ="safe").load(agents_file_path()) or {}
    except YAMLError as error:
        raise ScenarioError(f"{agents_file_path()}: is not valid YAML ({error})") from error
    agents = (
        entries.get("agents") if isinstance(entries, dict) and set(entries) <= {"agents"} else None
    )
    if not isinstance(agents, dict):
        raise ScenarioError(
            f"{agents_file_path()}: write 'agents:' and a mapping of names below it"
        )
    return AgentAddresses(
        {str(name): _parse_address(str(name), what) for name, what in agents.items()}
    )


def _parse_address(name: str, entries: Any) -> Address:
    fields = [f for f in Address.__dataclass_fields__ if f != "name"]
    if not isinstance(entries, dict) or not set(entries) <= set(fields):
        raise ScenarioError(
            f"{agents_file_path()}: agent {name} is {entries!r}; write a mapping with keys out of "
            f"{', '.join(fields)}"
        )
    lists: Sequence[str] = entries.get("load", ())
    if not isinstance(lists, list | tuple) or not isinstance(entries.get("environment", {}), dict):
        raise ScenarioError(
            f"{agents_file_path()}: agent {name}: 'load' is a list, 'environment' a mapping"
        )
    words = {k: str(v) for k, v in entries.items() if k not in ("load", "environment")}
    given = {str(k): str(v) for k, v in entries.get("environment", {}).items()}
    return Address(name, **words, load=tuple(map(str, lists)), environment=given)
