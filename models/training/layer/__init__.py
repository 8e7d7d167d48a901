"""Layers of a model as operations: forward, backward, weights, and what is kept between."""
