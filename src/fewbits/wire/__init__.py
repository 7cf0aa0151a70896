"""The wire format: a closed set of sections inside a frame. `docs/format.md` is normative."""
