"""The page of a recording as it is: where its time goes, and which rank it is."""
