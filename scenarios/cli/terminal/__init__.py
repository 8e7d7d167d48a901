"""Options shared by commands, and output in a terminal."""
