"""Inference of dependencies: from the recorded events of a trace to a graph of ops."""
