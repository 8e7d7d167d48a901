"""Waits of threads and streams, and the work that ends each wait."""
