"""LocalSGD and DiLoCo with compressed changes."""
