#!/bin/sh
# Stands for Python where there is none.
echo "skipped: needs python3 of 3.9 or later (Debian: python3)"
exit 77
