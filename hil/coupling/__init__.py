"""A device in the place of a component while simulated time goes on."""
