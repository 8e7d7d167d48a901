"""Studies: build the variants of a scenario, run them, and measure results and their uncertainty."""
