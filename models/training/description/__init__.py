"""Model descriptions: their schema, their readers, and the zoo of public models."""
