"""Media, compiled: who shares what is in flight."""
