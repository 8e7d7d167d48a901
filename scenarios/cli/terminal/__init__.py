"""Options that commands share, and answers and progress in a terminal."""
