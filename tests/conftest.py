"""What holds for all tests."""

from tests.examples import load_profile

load_profile()
