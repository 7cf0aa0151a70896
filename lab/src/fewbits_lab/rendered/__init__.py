"""The measured numbers of README and docs, made of the recorded results.

A page has blocks between `<!-- measured: NAME -->` and `<!-- end -->`. Functions make their whole
text, tables and sentences, of result files: those of a study's `text.py`, and of the modules here
where several studies are needed. `pages` says which block stands where. `python -m
fewbits_lab.rendered --write` (`make numbers`) writes the blocks into the pages, `--check` says
which are stale.
"""
