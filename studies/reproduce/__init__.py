"""Studies that one command makes again: `elbowroom reproduce NAME`."""
