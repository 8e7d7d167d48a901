"""Programs stored once for each class of ranks: asked, folded and run without being written out."""
