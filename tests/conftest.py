"""What holds for all tests."""

import signal

from tests.examples import load_profile

load_profile()

# A shell has what it runs in the background ignore SIGINT, and children inherit that: those of tests are to heed it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
