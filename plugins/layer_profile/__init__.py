"""Backend for measured layers of one model, in the file formats of Sailor and Galvatron."""
