"""Hugging Face Accelerate: one line attaches the compression to the model that it has prepared.

    torchrun --nproc-per-node 2 examples/ddp_accelerate.py
    accelerate launch --cpu --num_processes 2 examples/ddp_accelerate.py

It needs fewbits[torch] and accelerate. `DistributedDataParallelKwargs(comm_hook=…)` of Accelerate
knows torch's hooks only, so the hook is registered on the prepared model.
"""

import torch
from accelerate import Accelerator

import fewbits.ddp


def main() -> None:
    """Fit a small network to a made-up function; Accelerate shares out the batches."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )  # fmt: skip
    x = torch.randn(4096, 64)
    data = torch.utils.data.TensorDataset(x, x[:, :8].sum(dim=1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    compression = fewbits.ddp.attach(model, "natural")  # <- this line

    for epoch in range(2):
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")

    accelerator.print(compression.report())  # <- and this one, to see what it did
    compression.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
