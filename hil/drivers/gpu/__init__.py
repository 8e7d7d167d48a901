"""What a GPU reports of itself, and its memory for NICs beside it."""
