"""The sections of the page of a run, one or a few that belong together in a file."""
