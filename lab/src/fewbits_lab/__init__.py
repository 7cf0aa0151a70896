"""The laboratory of fewbits: what makes the evidence, and `fewbits-lab`, its command.

A study is one folder of `studies`: `run.py` makes its result, `show.py` and `text.py` say what it
shows. `index` finds the studies, `store` keeps the rows of those that are computed as JSON, so that
a finished one is not computed again, and `results` has what is recorded. `page` shows all of them,
and `rendered` writes their numbers into README and docs.
"""
