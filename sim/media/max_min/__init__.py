"""The shared-rate medium, compiled: weighted max-min over everything an op uses at once."""
