"""Models of GPUs and hosts: recorded durations, measured tables, fitted families, rooflines."""
