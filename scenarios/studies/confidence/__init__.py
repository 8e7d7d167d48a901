"""Confidence of an answer: errors of models and values, and what would flip it."""
