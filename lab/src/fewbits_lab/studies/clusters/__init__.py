"""Nodes of several ranks, with slow links between nodes."""
