"""`python -m fewbits.train`: the command `fewbits train`, as torchrun starts it.

```
torchrun --nproc-per-node 2 -m fewbits.train --operator none --operator natural
```
"""

import os
import sys

from fewbits.cli import main
from fewbits.train.rank import is_rank

code = main(["train", *sys.argv[1:]])
if is_rank():
    # End at once, without the interpreter's shutdown. Until then the sockets stay open, so other
    # ranks fail later, and the first to end is the one to look at. Also, gloo's threads see the
    # first ranks' sockets close while the interpreter shuts down, which has ended in SIGABRT.
    os._exit(code)
sys.exit(code)
