"""Descriptions of models: their schema, their readers, and the zoo of public ones."""
