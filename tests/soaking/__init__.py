"""The stages of `make soak`, a module for each kind; `soak.py` runs them."""
