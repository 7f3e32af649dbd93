"""Trained networks read from their run folders: evaluated, compared, used for predictions, exported."""
