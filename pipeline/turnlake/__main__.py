"""`python -m turnlake` is `turnlake`."""

from __future__ import annotations

import sys

from turnlake.cli import main

if __name__ == "__main__":
    sys.exit(main())
