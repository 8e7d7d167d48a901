"""The page of a recording without simulation: where time goes, and which rank others wait for."""
