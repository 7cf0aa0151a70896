"""The trellis beside EDEN, fp8 and the scalar quantiser at equal bits."""
