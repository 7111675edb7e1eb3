"""Whose tests look at permissions, which bind the superuser to nothing."""

import contextlib
import os


@contextlib.contextmanager
def as_a_user():
    """The superuser may do what the modes of files forbid."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
