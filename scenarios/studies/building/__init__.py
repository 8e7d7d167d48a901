"""Systems, backends and graphs of a scenario."""
