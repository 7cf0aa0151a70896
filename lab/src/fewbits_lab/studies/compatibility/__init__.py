"""Which training loops work with compression: what the tests of each have found."""
