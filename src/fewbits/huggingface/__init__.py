"""Compressed gradients for the `Trainer` of Hugging Face's transformers, in one line.

```python
import fewbits.huggingface

trainer = Trainer(model, arguments, train_dataset=data)
fewbits.huggingface.attach(trainer, "natural")
trainer.train()
```
"""

from fewbits.errors import MissingExtraError

try:
    import transformers  # noqa: F401
except ModuleNotFoundError as error:
    what = "fewbits.huggingface needs transformers: pip install transformers"
    raise MissingExtraError(what) from error

from fewbits.huggingface.trainer import CompressionCallback, attach

__all__ = ["CompressionCallback", "attach"]
