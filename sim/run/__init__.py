"""A run: workloads become jobs, processes steer them, an engine computes the result."""
