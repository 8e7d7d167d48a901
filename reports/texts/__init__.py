"""Sentences that several pages share: answers, advice, changes, definitions."""
