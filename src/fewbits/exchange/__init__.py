"""What the adapters for training share: a model's vectors become their mean over all ranks.

`plan` turns parameters into units of compression, `reducer` has the ways to average them, and
`Exchange` adds the thread that runs them, the report and the state that a rank saves.
"""
