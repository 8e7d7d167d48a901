"""Parallel plans: schedules, stages, gradient exchanges, and memory needs."""
