"""Natural and standard dithering: bits with a fixed width, and entropy coded."""
