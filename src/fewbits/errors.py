"""Every error that fewbits raises, named by who must act.

```
FewbitsError
├── SpecError(ValueError)          a spec or parameters make no sense      → fix your call
├── EncodeError(ValueError)        not a finite vector of a known dtype    → fix your data
├── DecodeError(ValueError)        not a frame; decoding raises no other   → distrust the sender
│   ├── VersionError               a newer format or an unknown operator   → upgrade
│   └── LimitError                 larger than the caller allowed          → raise it or drop
├── DisagreementError              ranks run different configurations      → align configuration
├── PeerError                      another rank or client failed           → look at the named one
└── MissingExtraError(ImportError) an optional package is not installed    → install the extra
```
"""


class FewbitsError(Exception):
    """The base class of all errors of fewbits."""


class SpecError(FewbitsError, ValueError):
    """Parameters or a spec string make no sense."""


class EncodeError(FewbitsError, ValueError):
    """The input is not a vector that can be compressed."""


class DecodeError(FewbitsError, ValueError):
    """The bytes are not a frame, or not the frame that their sender should have sent."""

    row: int | None = None  # the bad one, where a table was decoded


class VersionError(DecodeError):
    """The frame belongs to a newer format or to an operator that this version does not know."""


class LimitError(DecodeError):
    """The frame holds more than the caller allowed."""


class DisagreementError(FewbitsError):
    """Ranks or clients run different configurations or steps."""


class PeerError(FewbitsError):
    """Another rank, client or aggregator failed, stopped or vanished."""


class MissingExtraError(FewbitsError, ImportError):
    """An optional package is needed and not installed."""

    @classmethod
    def of(cls, what: str, extra: str) -> "MissingExtraError":
        """The error with both ways to install `extra`; `what` says who needs which package."""
        return cls(f"{what}: pip install '.[{extra}]' in a checkout, or 'fewbits[{extra}]'")


class SaturationWarning(UserWarning):
    """Finite values beyond the operator's range became its largest value, which is a bias."""
