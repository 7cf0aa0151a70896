"""A GPT trained with the preset `two-bit` beside plain training."""
