"""Low rank with encoded factors against torch's PowerSGD."""
