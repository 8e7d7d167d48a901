"""Recorded events of one rank: lanes (threads and streams), calls, kernels, steps."""
