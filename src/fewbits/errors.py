"""Every error that fewbits raises, named by who must act.

```
FewbitsError
├── SpecError(ValueError)          a spec or parameters make no sense      → fix your call
├── EncodeError(ValueError)        not a finite vector of a known dtype    → fix your data
├── DecodeError(ValueError)        not a frame; all that decoding raises   → distrust the sender
│   ├── VersionError               a newer format or an unknown operator   → upgrade
│   └── LimitError                 larger than the caller allowed          → raise it or drop
├── DisagreementError              ranks run different schemes or steps    → align configuration
├── PeerError                      another rank or client failed           → look at the named one
└── MissingExtraError(ImportError) an optional package is not installed    → install the extra
```
"""


class FewbitsError(Exception):
    """Whatever goes wrong in fewbits."""


class SpecError(FewbitsError, ValueError):
    """Parameters or a spec string make no sense."""


class EncodeError(FewbitsError, ValueError):
    """The input is not a vector that can be compressed."""


class DecodeError(FewbitsError, ValueError):
    """The bytes are not a frame, or not what their sender should have sent."""

    unit: int | None = None  # the bad row, where a table of units was decoded


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
        """`what` says who needs which package; the extra brings it, by either way to install."""
        return cls(f"{what}: pip install 'fewbits[{extra}]', or '.[{extra}]' in a checkout")


class SaturationWarning(UserWarning):
    """Finite values beyond the operator's range were replaced by its largest value: a bias."""
