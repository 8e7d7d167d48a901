"""Integer interface of both engines, and what they share: checks, clock, capacities, media."""
