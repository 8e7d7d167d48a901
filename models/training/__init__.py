"""Training: models from their descriptions, parallel plans, schedules, the step as a graph."""
