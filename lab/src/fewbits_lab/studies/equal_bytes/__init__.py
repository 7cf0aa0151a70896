"""Recorded gradients: errors at equal measured bytes."""
