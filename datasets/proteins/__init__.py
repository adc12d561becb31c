"""Proteins as sequences, alignments and structures: readers, AlphaFold's features, and a resumable loader."""
