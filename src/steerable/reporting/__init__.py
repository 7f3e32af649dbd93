"""Reading run folders back, and one page that compares them: tables, curves, poses, mistakes."""
