"""What pages say in words: answers, advice, changes, definitions; each for several pages."""
