"""How much of each promise's test has been run, and on which code."""
