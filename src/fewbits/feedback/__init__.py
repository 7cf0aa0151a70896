"""Memories that make compression converge: errors of an operator, or shifts that both sides know.

A biased operator loses the same part of every gradient, so training stalls. With a memory each
sender adds the errors so far to the next gradient (`ef14`, `dgc`), or sends only the difference to
a shift that the receiver knows too (`ef21`, `diana`, `ef-bv`).
"""

from fewbits.feedback.method import DGC, EF14, EF21, EFBV, Diana, Feedback, feedback
from fewbits.feedback.pair import Receiver, Sender
from fewbits.feedback.rule import Rule

__all__ = [
    "DGC",
    "EF14",
    "EF21",
    "EFBV",
    "Diana",
    "Feedback",
    "Receiver",
    "Rule",
    "Sender",
    "feedback",
]
