"""What is requested of a run and the plan that it comes to: values with limits, read from and written to files."""
