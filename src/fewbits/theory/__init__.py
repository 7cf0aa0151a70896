"""Theory: the uncertainty principle, convergence bounds, step sizes and costs.

`uncertainty` says how few bits can suffice, `bounds` how many steps of compressed SGD are enough,
`step_sizes` how long the steps of each method may be, `cost` what a step takes in bits and seconds.
These modules take and return numbers; they know no particular operator.
"""
