"""What people run: training, evaluation, comparison and reports, one file per case study. Knows all other folders."""
