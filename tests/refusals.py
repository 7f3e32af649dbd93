"""What a call says when it is refused."""

from __future__ import annotations

import pytest


def refusal(error: type[Exception], call: object, *args: object, **options: object) -> str:
    """The message of the error that ``call(*args, **options)`` raises."""
    with pytest.raises(error) as caught:
        call(*args, **options)  # type: ignore[operator]
    return str(caught.value)
