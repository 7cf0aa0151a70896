"""Data sets for regression: what comes with scikit-learn, and LIBSVM files of a given folder."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.errors import SpecError

Matrix = npt.NDArray[np.float64]
BREAST_CANCER = 30  # features
_ENDINGS = ("", ".gz", ".txt", ".txt.gz", ".libsvm", ".bz2")


class LabelledSet(NamedTuple):
    """One row of features for each sample, and what to predict: -1 or 1, or a number."""

    name: str
    features: Matrix
    targets: Matrix


def breast_cancer(features: int = BREAST_CANCER) -> LabelledSet:
    """569 samples of the diagnostic set; the first features, each scaled to [-1, 1]."""
    from sklearn.datasets import load_breast_cancer  # slow to import

    data = load_breast_cancer()
    own = np.asarray(data.data, np.float64)[:, :features]
    return LabelledSet("breast cancer", _scaled(own), _signs(np.asarray(data.target)))


def diabetes() -> LabelledSet:
    """442 samples, 10 features scaled to [-1, 1] and their squares; the target is standardised."""
    from sklearn.datasets import load_diabetes  # slow to import

    data = load_diabetes()
    own = _scaled(np.asarray(data.data, np.float64))
    target = np.asarray(data.target, np.float64)
    both = np.hstack([own, _scaled(own**2)])
    return LabelledSet("diabetes", both, (target - target.mean()) / target.std())


def digits(pixels: int) -> tuple[Matrix, Matrix]:
    """1797 samples: the pixels that vary most, scaled to [-1, 1], and a column for each class."""
    from sklearn.datasets import load_digits  # slow to import

    data = load_digits()
    own = np.asarray(data.data, np.float64)
    chosen = np.sort(np.argsort(-own.var(axis=0), kind="stable")[:pixels])
    return _scaled(own[:, chosen]), np.eye(10)[np.asarray(data.target)]


def libsvm(folder: str, name: str) -> LabelledSet | None:
    """The file of this name, if the folder or its `libsvm` has it; the larger label is 1."""
    found = _of_file(folder, name)
    return found and found._replace(targets=_signs(found.targets))


def regression(folder: str, name: str) -> LabelledSet | None:
    """The same with features scaled to [-1, 1] and a standardised target."""
    found = _of_file(folder, name)
    if found is None:
        return None
    target = found.targets
    return LabelledSet(name, _scaled(found.features), (target - target.mean()) / target.std())


def _of_file(folder: str, name: str) -> LabelledSet | None:
    if not Path(folder).is_dir():
        raise SpecError(f"--data must be a folder of LIBSVM files, got {folder!r}")
    from sklearn.datasets import load_svmlight_file  # slow to import

    for place, ending in itertools.product((Path(folder), Path(folder) / "libsvm"), _ENDINGS):
        path = place / f"{name}{ending}"
        if path.is_file():
            features, labels = load_svmlight_file(str(path))
            return LabelledSet(name, np.asarray(features.toarray(), np.float64), np.asarray(labels))
    return None


def _signs(labels: npt.NDArray[np.float64]) -> Matrix:
    return np.where(labels == labels.max(), 1.0, -1.0)


def _scaled(features: Matrix) -> Matrix:
    low, high = features.min(axis=0), features.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    return np.asarray(2 * (features - low) / spread - 1)
