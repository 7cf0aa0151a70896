"""One module a family of kinds: native code where there is some, else the reference."""
