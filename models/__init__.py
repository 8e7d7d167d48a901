"""Models: backends that predict timing, by domain, and the catalog of hardware facts."""
