"""Speed of natural compression against memcpy and the float16 cast."""
