"""Training as in the paper on natural compression, on what two processor cores can do.

`plan` says what is run, `rows`, `paired`, `verdicts` and `curves` what came out. `models`, `loop`,
`pool` and `linked` need torch and are imported when a run begins.
"""
