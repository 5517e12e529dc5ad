"""What notebooks show of specs, tables, encodings, models and figures: plain HTML in the page's own colours."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from . import _core
from ._figures import Figure

Row = Sequence[Any]


def spec(of: _core.Spec) -> str:
    """Its members, with what they are, the formula and where it comes from."""
    doc = type(of).__doc__ or ""
    entry = _core._entry(of)
    title = type(of).__name__
    source = _paragraph(doc)
    if entry is not None:
        title += f": {entry.title}"
        source = f"{entry.does} ({entry.authors} {entry.year}, {entry.source})"
    members = [
        (name, value if isinstance(value, str) else repr(value), _paragraph(getattr(type(of), name).__doc__))
        for name, value in ((name, getattr(of, name)) for name in of.to_dict() if name != "type")
    ]
    return _block(title, _table(members), _formula(doc), _line(source))


def rope_table(of: _core.RopeTable) -> str:
    """What it holds, and how fast its pairs turn."""
    frequencies = of.frequencies
    turning = [length for length in frequencies.wavelengths if length != float("inf")]
    rows = [
        ("head_dim", frequencies.head_dim, f"{frequencies.rotary_dim} of them turn"),
        ("pairing", frequencies.pairing, ""),
        ("length", f"{of.length:,}", "positions"),
        ("dtype", of.dtype, f"{of.memory}, {of.nbytes:,} bytes"),
        ("attention_factor", f"{frequencies.attention_factor:g}", "multiplies cos and sin"),
    ]
    if turning:
        rows.append(("wavelengths", f"{min(turning):,.4g} to {max(turning):,.6g}", "tokens for a turn"))
    return _block("RopeTable: cos and sin of every pair", _table(rows))


def encoding(of: _core.Encoding) -> str:
    """What it was made with: arrays by their shapes."""
    given = {name: value for name, value in of.arguments.items() if value is not None}
    return _block(type(of).__name__, _table([(name, _shown(value), "") for name, value in given.items()]))


def model(of: _core.Model) -> str:
    """Its layers, those that are alike in one row, what is on the input, and warnings."""
    lengths = [("trained for", of.trained_length), ("promises", of.context_length)]
    facts = [f"{of.heads} heads of {of.head_dim}, {of.kv_heads} of keys"]
    facts += [f"{what} {length:,} tokens" for what, length in lengths if length]
    rows = [
        (f"input ({one.label})" if one.label else "input", one.part, one.name, one.encoding, "") for one in of.inputs
    ]
    rows += [
        (_ranges(group.layers), layer.part or layer.type, layer.name, layer.encoding, _window(layer))
        for group in of.layer_groups()
        for layer in (group.layer,)
    ]
    heads = ("layers", "type", "encoding", "spec", "window")
    warnings = "".join(f"<li>{escape(one.pointer)} {escape(one.text)}</li>" for one in of.warnings)
    listed = f"<p>Warnings</p><ul>{warnings}</ul>" if warnings else ""
    return _block(f"{of.model_type or 'model'}: {of.file}", _line("; ".join(facts)), _table(rows, heads), listed)


def figure(of: Figure) -> str:
    """The picture where matplotlib is there, else what is to be seen on it."""
    try:
        from . import plot

        places = plot.draw(of)
    except ImportError:
        return _block(of.title, _line(of.text))
    file = io.BytesIO()
    drawn = places if len(of.panels) == 1 else places[0]
    drawn.get_figure().savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(of.text)}" title="{escape(of.title)}" src="data:image/png;base64,{data}">'


def _window(layer: _core.Layer) -> str:
    if layer.type == "chunked_attention" and layer.window:
        before = {0: "", -1: ", all before"}.get(layer.chunks_before, f", {layer.chunks_before} before")
        return f"chunks of {layer.window}{before}"
    if layer.window_after:
        return f"{layer.window - 1} before, {layer.window_after} after"
    return str(layer.window or "")


def _block(title: str, *parts: str) -> str:
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}</div>"


def _line(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _table(rows: Iterable[Row], heads: Sequence[str] = ()) -> str:
    """The first cell of a row names it."""
    style = ' style="text-align: left"'
    top = "".join(f'<th scope="col"{style}>{escape(one)}</th>' for one in heads)
    body = "".join(
        f'<tr><th scope="row"{style}>{escape(str(name))}</th>'
        + "".join(f"<td{style}>{escape(str(one))}</td>" for one in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{body}</tbody></table>" if body else ""


def _formula(doc: str) -> str:
    """The first indented paragraph of a text, unless it is Python. Lines that go on with an item are none."""
    for block in re.findall(r"(?<=\n\n)(?: {4}.*\n)+", doc):
        if "bearing." not in block:
            return f"<pre>{escape(re.sub('^ {4}', '', block, flags=re.MULTILINE).rstrip())}</pre>"
    return ""


def _paragraph(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())


def _shown(value: Any) -> str:
    return f"array {tuple(value.shape)}" if hasattr(value, "shape") else repr(value)


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 5, 7-8"""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
