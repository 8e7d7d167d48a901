"""Fitting: from recordings to catalog entries, validated on held-out data."""
