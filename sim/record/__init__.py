"""Record of a run: the op timings from the backends, and the schedule or its aggregates."""
