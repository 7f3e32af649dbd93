"""Groups and their representations: numpy only, every number in float64."""
