"""How sure an answer is: errors of models and values, and what would flip it."""
