"""Reference engine in plain SimPy and Python: it defines the result of a run."""
