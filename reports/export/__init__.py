"""Runs in the formats of other programs: parquet, Perfetto, Chrome, PDF."""
