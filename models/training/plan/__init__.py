"""Parallel plans: schedules, stages, exchanges of gradients, and the memory that they need."""
