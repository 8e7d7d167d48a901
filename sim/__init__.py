"""Discrete-event simulation: graphs of ops, systems of components, two engines, results."""
