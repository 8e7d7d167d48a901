"""Studies: build the variants of a scenario, run them, measure results and uncertainty."""
