"""Waits of threads and streams, and who ends them."""
