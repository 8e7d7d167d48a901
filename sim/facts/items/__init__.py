"""Items: pools that serve them, processes of arrivals, and the layout that policies read."""
