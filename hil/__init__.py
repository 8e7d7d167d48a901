"""Hardware in the loop: drivers that measure, recordings that remember."""
