"""Memory drivers: of one core, under load from several threads, and behind CXL."""
