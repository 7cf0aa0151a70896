"""Natural compression, Figure 21: exponents of gradients."""
