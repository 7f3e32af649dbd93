"""``python -m steerable.cli`` is the ``steerable`` command."""

from steerable.cli import main

if __name__ == "__main__":
    main()
