"""`fewbits train --resume` reads what an earlier version wrote."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fewbits import SpecError


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


def edited(tensors: dict[str, Any], name: str, change: Callable[[Any], Any]) -> None:
    text = json.loads(tensors[name].numpy().tobytes())
    content = json.dumps(change(text)).encode()
    tensors[name] = tensors[name].new_tensor(list(content))


SPOILED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a weight is missing": lambda own: own.pop("model.0.bias"),
    "a weight too many": lambda own: own.update({"model.7.bias": own["model.0.bias"]}),
    "another shape": lambda own: own.update({"model.0.bias": own["model.1.bias"]}),
    "another type": lambda own: own.update({"model.0.bias": own["model.0.bias"].double()}),
    "another random state": lambda own: own.update(random=own["random"][:-1]),
    "no momentum of ours": lambda own: own.update({"optimizer.9.x": own["model.0.bias"]}),
    "a momentum without a number": lambda own: own.update({"optimizer.x.y": own["model.0.bias"]}),
    "a momentum of another shape": lambda own: own.update(
        {"optimizer.0.momentum_buffer": own["model.1.bias"]}
    ),
    "a list": lambda own: edited(own, "about", lambda about: [about]),
    "no text": lambda own: own.update(about=own["about"][3:]),
    "no history": lambda own: edited(own, "history", lambda _: {}),
    "another history": lambda own: edited(own, "history", lambda told: told | {"epochs": [{}]}),
    "no seed": lambda own: edited(
        own, "about", lambda about: {name: about[name] for name in about if name != "seed"}
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_wrong_checkpoint_with_the_right_checksum_loads_nothing(what: str) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    from fewbits.train import checkpoint
    from golden import train_file

    torch.manual_seed(2)
    net, optimizer = train_file.model()
    before = train_file.digest(net)
    tensors = safetensors.load(train_file.FILE.read_bytes())
    del tensors["checksum"]
    SPOILED[what](tensors)
    tensors["checksum"] = torch.tensor([checkpoint._checksum(tensors)])
    state = torch.get_rng_state()
    with pytest.raises(SpecError, match="checkpoint"):
        checkpoint.restore(tensors, net, optimizer, train_file.common())
    assert train_file.digest(net) == before
    assert not optimizer.state_dict()["state"]
    assert torch.equal(torch.get_rng_state(), state)
