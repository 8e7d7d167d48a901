"""The page of a run, and of runs compared."""
