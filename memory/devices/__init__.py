"""Accelerators as data: one TOML file each."""
