"""What is measured on a run or on a file of predictions: read, handed to the statistics, told in tables."""
