"""Faults made on purpose, repeatable by their seed: see tests/test_faults.py."""

from __future__ import annotations
