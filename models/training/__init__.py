"""Training models: model descriptions, parallel plans, schedules, and the graph of a step."""
