"""Texts that a file has about its processes: their names, labels and ranks.

Profilers of Ascend write no category: their processes have the names of what runs there. Programs
that merge the files of several ranks mark the processes of each with its rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .kineto_schema import KinetoEvent

CANN = re.compile(r"(AscendCL|Node|Model|Runtime|Communication|Hccl|HCCL)@")
"""Names of calls into CANN, the runtime of Ascend, by its layers."""
MARKED = re.compile(
    r"\[([^\]]*\d[^\]]*)\]|((?:global[ _-]?)?rank[ _:-]*\d+)|((?:tp|pp|dp|ep|cp)[ _-]*\d+)", re.I
)


class ProcessTexts:
    """Names, labels and ranks of the processes of one file, by the text of their ``pid``."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.ranks: dict[str, int] = {}

    def add(self, described: Iterable[KinetoEvent]) -> None:
        """Add the texts of metadata events (phase M)."""
        for event in described:
            pid, args = str(event.pid), event.args
            if event.name == "process_name" and args.name is not None:
                self.names[pid] = str(args.name)
            if event.name == "process_labels" and args.labels is not None:
                self.labels[pid] = str(args.labels)
            if args.rank is not None and str(args.rank).isdecimal():
                self.ranks[pid] = int(args.rank)

    def category(self, pid: str, event: str) -> str:
        """Category of an event that has none, from its process and its own name; "" if unknown.

        >>> ProcessTexts().category("7", "AscendCL@aclrtSynchronizeDevice")
        'CANN'
        """
        if CANN.match(event):
            return "CANN"
        return self.names.get(pid, "")

    def mark(self, pid: str) -> str:
        """Text that marks a process as one of several ranks of the file; "" if it has none.

        >>> ProcessTexts().mark("[TP01] 50"), ProcessTexts().mark("50")
        ('TP01', '')
        """
        if pid in self.ranks:
            return f"rank {self.ranks[pid]}"
        for text in (pid, self.names.get(pid, ""), self.labels.get(pid, "")):
            if found := MARKED.search(text):
                return next(part for part in found.groups() if part)
        return ""
