"""What pages show of results that `fewbits lab` does not compute: they need root, data or hours.

One file for each subject. A `Recorded` names its file in `benchmarks/results`, the command that
makes it, and pure functions from that document to tables, a figure, findings and claims. Documents
show the same tables.
"""
