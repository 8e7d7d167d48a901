"""Results in, one HTML file out; tables and a timeline beside it."""
