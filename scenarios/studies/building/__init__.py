"""Systems, backends and prices of a scenario."""
