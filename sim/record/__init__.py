"""Record of a run: what backends answered, the schedule that came out, or its aggregates."""
