"""Execution of a run: workloads become jobs, processes steer them, an engine runs them."""
