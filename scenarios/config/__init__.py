"""Reading scenarios: from YAML text to a checked scenario, or to a list of all its problems."""
