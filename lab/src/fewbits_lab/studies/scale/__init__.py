"""Scale: bytes, seconds and where compression pays, from 2 to 10,000 workers."""
