"""The request of a run and the plan made from it: values with limits, read from and written to files."""
