"""Many points of one scenario: proposed by a method, run by workers, kept as they come.

Begin with ``sweeping.py``.  A point is a plain dict, and its key its SHA-256: who runs it, and when,
cannot change what comes of it.
"""
