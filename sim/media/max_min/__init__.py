"""Compiled max-min medium: weighted fair rates over all components that a flow uses at once."""
