"""From the text of a scenario to a checked one, or to everything that is wrong with it."""
