"""The measured numbers of README and docs, made of the files in `benchmarks/results`.

A page has blocks between `<!-- measured: NAME -->` and `<!-- end -->`. Their whole text, tables and
sentences, comes from here: one module for each page, one function for each block, a pure function
of result files. `python -m benchmarks.rendered --write` (`make numbers`) writes them into the
pages, `--check` says which are stale.
"""
