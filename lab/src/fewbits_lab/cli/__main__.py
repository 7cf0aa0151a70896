"""`python -m fewbits_lab.cli`."""

import sys

from fewbits_lab.cli import main

sys.exit(main())
