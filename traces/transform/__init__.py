"""Other graphs from a recorded one: more ranks, a group that was not there."""
