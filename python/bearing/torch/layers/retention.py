"""Retention as a bias by distance: its rates are factors."""

__all__: list[str] = []

PROPORTIONAL = ("RetentionBias",)
