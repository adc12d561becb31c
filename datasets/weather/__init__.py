"""Gridded weather data in one normal form: readers, checks, statistics, windows, and a resumable loader."""
