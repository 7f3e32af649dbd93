"""Feature types: capsules, field types and what they cost."""
