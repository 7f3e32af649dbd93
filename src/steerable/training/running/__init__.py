"""Runs from beginning to end: a folder, a start, the epochs, the results, and what happens when they are stopped."""
