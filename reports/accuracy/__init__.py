"""The page of an accuracy check."""
