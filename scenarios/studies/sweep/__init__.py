"""Sweeps: many points of one scenario, chosen by a method, run by workers, stored as they finish.

Begin with ``sweeping.py``. A point is a plain dict with its SHA-256 as key, so that the worker and
the time at which it runs cannot change its result.
"""
