"""What theory promises: limits of information, convergence bounds and step sizes, and costs.

`information` says how few bits can suffice, `bounds` how many steps of compressed SGD are enough,
`step_sizes` how long the steps of each method may be, `cost` what a step takes in bits and seconds.
Only numbers come in and go out; nothing here knows a particular operator.
"""
