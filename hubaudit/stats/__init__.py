"""The estimators: numpy and scipy only, one statistic a file."""
