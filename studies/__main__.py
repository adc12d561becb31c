"""`python -m elbowroom.studies` is the command `elbowroom`."""

from elbowroom.studies.cli import main

main()
