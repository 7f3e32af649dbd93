"""What must be true of the built pages: nothing comes from the network, and every public name is described."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Collection, Iterable

__all__ = ["PUBLIC_MODULES", "anchors", "external_resources", "undocumented"]

# Whatever these offer is on a reference page.
PUBLIC_MODULES = (
    "steerable",
    "steerable.checking",
    "steerable.conversion",
    "steerable.data",
    "steerable.figures",
    "steerable.models",
    "steerable.nn",
    "steerable.testing",
    "steerable.training",
)

# What a browser fetches by itself, as against links that a reader follows.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)[^>]*\ssrc=\"?https?:[^\s\">]+"
    r"|<link(?![^>]*rel=\"?(?:canonical|prev|next|alternate))[^>]*\shref=\"?https?:[^\s\">]+"
)
_ANCHOR = re.compile(r"<h\d id=\"(steerable[\w.]*)\"")


def external_resources(html: str) -> list[str]:
    """The tags of a page that a browser would load from another host.

    >>> external_resources('<a href="https://x.org">x</a> <script src="https://x.org/y.js"></script>')
    ['<script src="https://x.org/y.js']
    """
    return _FETCHED.findall(html)


def anchors(html: str) -> set[str]:
    """The dotted names that a page describes.

    >>> anchors('<h2 id="steerable.nn.conv.Conv2d" class="doc"></h2> <h2 id="example"></h2>')
    {'steerable.nn.conv.Conv2d'}
    """
    return set(_ANCHOR.findall(html))


def undocumented(described: Collection[str], modules: Iterable[str] = PUBLIC_MODULES) -> list[str]:
    """Public names that no page describes; a class or function counts where it is defined.

    >>> undocumented({"steerable.testing.equivariance_error"}, ["steerable.testing"])
    ['steerable.testing.assert_equivariant', 'steerable.testing.equivariance_errors']
    """
    missing = []
    for name in modules:
        module = importlib.import_module(name)
        for member in module.__all__:
            value = getattr(module, member)
            if inspect.ismodule(value):
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                found = f"{value.__module__}.{value.__qualname__}" in described
            else:  # a constant does not know where it is from
                found = any(path.endswith(f".{member}") for path in described)
            if not found:
                missing.append(f"{name}.{member}")
    return missing
