"""Train a real model data-parallel, once for each operator, and compare bytes, time and accuracy.

`fewbits train` starts the workers of every run by itself (`launcher`); `torchrun -m fewbits.train`
starts the same workers on several machines (`__main__`). Only the workers import torch.
"""
