"""Training as in the paper on natural compression, on what two processor cores can do.

All but `plan` needs torch, and is imported when a run begins.
"""
