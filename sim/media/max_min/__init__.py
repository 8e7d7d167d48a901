"""Compiled max-min medium: weighted fair rates over all components that an op uses at once."""
