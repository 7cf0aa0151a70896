"""`fewbits train --resume` reads what an earlier version wrote."""

import pytest


def test_an_old_checkpoint_goes_on_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    from fewbits.train import checkpoint
    from golden import train_file

    net, optimizer = train_file.model()
    tensors = safetensors.load(train_file.FILE.read_bytes())
    with torch.random.fork_rng():
        history = checkpoint.restore(tensors, net, optimizer, train_file.common())
    assert history == train_file.history()
    train_file.step(net, optimizer)
    assert train_file.digest(net) == train_file.PARAMETERS
