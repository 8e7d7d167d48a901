"""Hardware in the loop: drivers that time ops on devices, and recordings of those times."""
