"""The speed at which one core adds and rounds."""
