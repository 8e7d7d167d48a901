"""The comparison page of several runs, and its sections."""
