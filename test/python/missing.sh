#!/bin/sh
# Skips the tests of the Python package on a machine that has no Python.
echo "skipped: needs python3 of 3.9 or later (Debian: python3)"
exit 77
