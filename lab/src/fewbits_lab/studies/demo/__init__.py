"""The demo: `fewbits train` on an emulated link, as `make demo` runs it."""
