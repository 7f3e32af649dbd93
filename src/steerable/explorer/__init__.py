"""The explorer: a page on which groups, filters, costs, steering and trained models are looked at; needs Gradio."""

from steerable.explorer.app import Explorer

__all__ = ["Explorer"]
