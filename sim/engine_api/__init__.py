"""Interface of both engines, in integers, and what they share: checks, clock, capacities, media."""
