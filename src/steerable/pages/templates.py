"""Jinja2 templates that a package keeps in its folder ``templates``.

Every value that a template prints is escaped, unless it is ``Markup`` already, which only templates and our own
drawings make. A missing name is an error.
"""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steerable.pages.numbers import decimal, percent, small, thousands

__all__ = ["Templates"]


class Templates:
    """The templates of a package, and those that all packages share.

    Args:
        package: the package's dotted name.
    """

    def __init__(self, package: str) -> None:
        self._environment = Environment(
            loader=ChoiceLoader([PackageLoader(package), PackageLoader("steerable.pages")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update({f.__name__: f for f in (decimal, percent, small, thousands)})

    def render(self, template: str, **values: object) -> Markup:
        """The text of a template with these values."""
        return Markup(self._environment.get_template(template).render(values))
