"""Fleets: what fails, who notices, and where the work goes."""
