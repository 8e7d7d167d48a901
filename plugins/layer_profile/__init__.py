"""Measured layers of one model, in the form of Sailor or of Galvatron, as a backend."""
