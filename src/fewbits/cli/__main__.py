"""`python -m fewbits.cli`."""

import sys

from fewbits.cli import main

sys.exit(main())
