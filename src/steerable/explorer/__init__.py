"""The explorer: a page that shows groups, filters, costs, steering and trained models; it needs Gradio."""

from steerable.explorer.app import Explorer

__all__ = ["Explorer"]
