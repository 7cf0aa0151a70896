"""Memories that make compression converge: what an operator lost, or what it is measured against.

A biased operator loses the same part of every gradient, so training stalls. With a memory each
sender adds what it has not yet sent (`ef14`), or sends only the change against a shift that the
receiver knows too (`ef21`, `diana`, `ef-bv`).
"""

from fewbits.feedback.method import EF14, EF21, EFBV, Diana, Feedback, feedback
from fewbits.feedback.pair import Receiver, Sender
from fewbits.feedback.rule import Rule

__all__ = ["EF14", "EF21", "EFBV", "Diana", "Feedback", "Receiver", "Rule", "Sender", "feedback"]
