"""Mixed precision: GradScaler sees NaN and infinity through the compression, and skips the step.

torchrun --nproc-per-node 2 examples/ddp_grad_scaler.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import fewbits.ddp


def main() -> None:
    """Train with a scaled loss; one step overflows on one rank only, and every rank skips it."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(256, 256))
    compression = fewbits.ddp.attach(model, "natural", nonfinite="propagate")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    for step in range(6):
        x = torch.randn(32, 256)
        if step == 3 and dist.get_rank() == 1:
            x[0, 0] = torch.inf
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if dist.get_rank() == 0:
            skipped = scaler.get_scale() < before
            print(f"step {step}: {'skipped, the scale was halved' if skipped else 'taken'}")

    finite = all(torch.isfinite(p).all() for p in model.parameters())
    if dist.get_rank() == 0:
        print(f"all parameters finite: {finite}")
    compression.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
