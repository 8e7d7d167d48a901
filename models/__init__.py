"""Models: backends that predict, by domain, and the catalog of hardware facts."""
