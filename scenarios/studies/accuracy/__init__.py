"""Hardware in the loop of a scenario: opening devices, putting them in place, comparing."""
