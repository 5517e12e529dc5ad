"""Encodings that have files of their own: parameters that a network computes for each call.

A file is called like the encoding's page, or like its function, and found by its name alone. ``__all__`` has its functions.
"""

from importlib import import_module
from pkgutil import iter_modules

__all__: list[str] = []
for _file in iter_modules(__path__):
    _module = import_module(f"{__name__}.{_file.name}")
    globals().update({name: getattr(_module, name) for name in _module.__all__})
    __all__ += _module.__all__
