"""The page of a comparison, and its sections."""
