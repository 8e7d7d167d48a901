"""From a file to an answer: what is described, checked, built, run and kept.

The only place where a name in a file becomes a class.  Begin with ``loader.py``.
"""
