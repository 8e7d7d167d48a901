"""GPUs and hosts: recorded durations, measured tables, rooflines, dispatch costs."""
