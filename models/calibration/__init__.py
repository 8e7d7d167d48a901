"""A model's parameters from measurements, with what there is to be said about them."""
