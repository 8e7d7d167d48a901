"""Reading a scenario: parse, merge, check and complete; every problem has its file position."""
