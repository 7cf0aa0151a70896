"""The callback that attaches to the model of a `Trainer` and saves with its checkpoints."""

from pathlib import Path
from typing import Any, Unpack

from transformers import TrainerCallback

from fewbits import ddp
from fewbits.core.operator import Operator
from fewbits.session import GradientOptions, Report, takes

_FOLDER = "fewbits"  # in each checkpoint of the trainer


class CompressionCallback(TrainerCallback):  # type: ignore[misc]
    """Attaches when training begins, because the trainer wraps its model in DDP only then.

    `compression` is that of `fewbits.ddp.attach`, None before training and with one process. A
    checkpoint of the trainer has a folder `fewbits`, from which a resumed training goes on. The
    trainer's GradScaler, if there is one, is tracked.
    """

    def __init__(
        self,
        trainer: Any,
        uplink: str | Operator,
        downlink: str | Operator | None,
        options: GradientOptions,
    ) -> None:
        self.compression: ddp.Compression | None = None
        self._trainer, self._operators, self._options = trainer, (uplink, downlink), options
        self._model: Any = None

    def report(self) -> Report | None:
        """Bytes, seconds and counts of this rank since the start; None if nothing is attached."""
        return None if self.compression is None else self.compression.report()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        model = self._trainer.model_wrapped
        if args.world_size == 1 or model is self._model:
            return  # alone, or the model of an earlier call of `train`
        self._model = model
        self.compression = ddp.attach(model, *self._operators, **self._options)
        if self._trainer.accelerator.scaler is not None:
            self.compression.track(self._trainer.accelerator.scaler)
        if state.global_step:
            folder = _folder(args, state)
            if folder.is_dir():
                self.compression.load(folder)
            else:  # of a training without compression: no random number is drawn twice
                self.compression.step = state.global_step

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.compression is not None:
            self.compression.save(_folder(args, state))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Give the process group back; another call of `train` opens it again."""
        if self.compression is not None:
            self.compression.close()


def _folder(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / _FOLDER


@takes(GradientOptions)
def attach(
    trainer: Any,
    uplink: str | Operator,
    downlink: str | Operator | None = None,
    **options: Unpack[GradientOptions],
) -> CompressionCallback:
    """Compress the gradients of a `Trainer`; every rank must call this with the same arguments.

    The arguments are those of `fewbits.ddp.attach`. Returns the callback, which has been added to
    the trainer; its `report()` says what was sent.
    """
    callback = CompressionCallback(trainer, uplink, downlink, options)
    trainer.add_callback(callback)
    return callback
