"""How often an op is done, under which conditions, and how sure that makes us."""
