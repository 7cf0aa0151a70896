"""Every error that fewbits raises, named by who must act.

```
FewbitsError
├── SpecError(ValueError)          parameters or a spec string make no sense             → fix your call
├── EncodeError(ValueError)        the input is not a finite vector of a known dtype     → fix your data
├── DecodeError(ValueError)        the bytes are not a frame; all that decoding may raise → distrust the sender
│   ├── VersionError               a frame of a newer format, or an unknown operator     → upgrade
│   └── LimitError                 larger than the caller allowed                        → raise the limit or drop
├── DisagreementError              ranks or clients do not run the same scheme or step   → align configuration
├── PeerError                      another rank, client or aggregator failed or vanished → look at the named one
└── MissingExtraError(ImportError) an optional package is not installed                  → install the named extra
```
"""


class FewbitsError(Exception):
    """Whatever goes wrong in fewbits."""


class SpecError(FewbitsError, ValueError):
    """Parameters or a spec string make no sense."""


class EncodeError(FewbitsError, ValueError):
    """The input is not a vector that can be compressed."""


class DecodeError(FewbitsError, ValueError):
    """The bytes are not a frame."""


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


class SaturationWarning(UserWarning):
    """Finite values beyond the operator's range were replaced by the largest one it can send: a bias."""
