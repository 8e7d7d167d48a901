"""What people ask of a run: where time went, who is to blame, what would change it."""
