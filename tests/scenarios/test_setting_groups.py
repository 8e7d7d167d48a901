"""A constructor may take groups of settings; old flat names are understood with a message."""

from __future__ import annotations

import logging

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads, with_overrides
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import json_schema
from foretrace.scenarios.config.settings import backend_settings_model, constructor_model

PLUGIN = '''
from dataclasses import dataclass
from foretrace.plugins import backend, process, Backend
from foretrace.sim.units import Seconds, Ratio

@dataclass(frozen=True)
class Retry:
    """Retries.

    Parameters
    ----------
    wait : Seconds
        Time before a retry.
    share : Ratio
        Share of attempts that fail.
    """

    wait: Seconds
    share: Ratio = 0.5

@dataclass(frozen=True)
class Port:
    """A port.

    Parameters
    ----------
    retry : Retry or None
        Retries of it.
    """

    retry: Retry | None = None
    depth: int = 4

@backend("grouped-backend")
class Grouped(Backend):
    """Ops through a port.

    Parameters
    ----------
    port : Port
        The port.
    """

    renamed_settings = {"retry_wait": "port.retry.wait", "depth": "port.depth"}

    def __init__(self, *, port: Port = Port()):
        self.port = port

    def timing(self, ops, now=0.0):
        raise NotImplementedError

@process("grouped-process")
class GroupedProcess:
    """Steers through a port."""

    def __init__(self, *, port: Port = Port(), retry: Retry | None = None):
        self.port, self.retry = port, retry

    def __call__(self, sim):
        yield sim.timeout(1)
'''
