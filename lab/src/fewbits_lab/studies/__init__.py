"""One folder a study.

`run.py` makes the result, `show.py` has its tables, figures, findings and claims, `text.py` the
sentences of README and docs, and `result.json` is the recorded result.
"""
