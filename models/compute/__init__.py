"""Models of GPUs and hosts: recorded durations, measured tables, fitted op families, rooflines."""
