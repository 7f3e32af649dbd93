"""Run folders read back, and a page that compares them: tables, curves, poses, mistakes."""
