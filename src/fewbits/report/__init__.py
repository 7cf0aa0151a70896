"""Pages made from result files: figures and tables, without network and without torch."""

from fewbits.report.page import read, render, write

__all__ = ["read", "render", "write"]
