"""Layers of a model as differentiable operations: ops, weights, and saved data."""
