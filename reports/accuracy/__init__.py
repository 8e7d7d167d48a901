"""The page of an accuracy check, and its sections."""
