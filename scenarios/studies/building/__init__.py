"""Systems, backends, jobs and prices built from a scenario."""
