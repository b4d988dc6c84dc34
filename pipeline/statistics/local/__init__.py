"""Local group bias (LOGAN, Zhao & Chang 2020): clusters of similar rows in which two groups fare differently."""
