// A whole figure: its panels side by side, their legends and scales of colours, and the number under the pointer.

import { colourOf, dashOf, drawPanel } from "./panel.js";
import { beginFigure, paintedScale, paletteColour } from "./colours.js";
import { general } from "./numbers.js";

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function legendOf(panel) {
  const items = [];
  for (const series of panel.series) {
    if (!series.label) continue;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    line.setAttribute("width", 26);
    line.setAttribute("height", 10);
    line.setAttribute("aria-hidden", "true");
    line.innerHTML = `<line x1="1" x2="25" y1="5" y2="5" stroke="${colourOf(series)}" stroke-width="2.5"
      stroke-dasharray="${dashOf(series)}" opacity="${series.faint ? 0.5 : 1}"></line>`;
    items.push([line, series.label]);
  }
  for (const band of panel.bands) {
    if (band.label) items.push([swatch(paletteColour(band.colour), 0.35), band.label]);
  }
  (panel.cells?.categories ?? []).forEach((name, i) => items.push([swatch(paletteColour(i), 1), name]));
  if (items.length === 0) return null;
  return make("ul", { class: "legend" }, ...items.map(([mark, text]) => make("li", {}, mark, " ", text)));
}

function swatch(colour, opacity) {
  const mark = make("span", { class: "swatch", "aria-hidden": "true" });
  Object.assign(mark.style, { background: colour, opacity });
  return mark;
}

function scaleOf(cells) {
  const canvas = paintedScale(cells.map);
  canvas.setAttribute("aria-hidden", "true");
  return make("div", { class: "scale" }, make("span", {}, general(cells.low, 4)), canvas, make("span", {}, general(cells.high, 4)),
    make("span", { class: "of" }, cells.title));
}

// "query 3, key 5: 0.25", for a place in the panel in pixels.
function reading(panel, at, x, y) {
  const cells = panel.cells;
  const column = Math.round(((x - at.x(cells.x_first)) / (at.x(cells.x_first + cells.x_step) - at.x(cells.x_first))));
  const row = Math.round(((y - at.y(cells.y_first)) / (at.y(cells.y_first + cells.y_step) - at.y(cells.y_first))));
  const rows = cells.values.length / cells.cols;
  if (column < 0 || row < 0 || column >= cells.cols || row >= rows) return "";
  const value = cells.values[row * cells.cols + column];
  const said = Number.isNaN(value) ? "nothing" : (cells.categories[Math.round(value)] ?? general(value, 5));
  const name = (axis) => axis.title.replace(/ \(.*/, "");
  return `${name(panel.y)} ${cells.y_first + row * cells.y_step}, ${name(panel.x)} ${cells.x_first + column * cells.x_step}: ${said}`;
}

// Draws a figure into an element that is as wide as it may be. `readout` shows the number under the pointer.
export function drawFigure(figure, to, readout) {
  beginFigure();
  const width = to.clientWidth;
  const gap = 20;
  const fits = Math.max(1, Math.floor((width + gap) / (250 + gap)));
  const columns = Math.min(figure.columns, fits, figure.panels.length);
  const each = Math.floor((width - gap * (columns - 1)) / columns);
  const panels = figure.panels.map((panel) => {
    const drawing = make("div", { class: "drawing" });
    const at = drawPanel(panel, each, drawing);
    if (panel.cells && readout) {
      drawing.addEventListener("pointermove", (event) => {
        const box = drawing.getBoundingClientRect();
        readout.textContent = reading(panel, at, event.clientX - box.left - at.left, event.clientY - box.top - at.top);
      });
      drawing.addEventListener("pointerleave", () => { readout.textContent = ""; });
    }
    const legend = legendOf(panel);
    const scale = panel.cells && panel.cells.map !== "categories" ? scaleOf(panel.cells) : null;
    return make("div", { class: "panel", style: `width: ${each}px` },
      ...[panel.title ? make("p", { class: "panel-title" }, panel.title) : null, drawing, scale, legend].filter((one) => one));
  });
  to.replaceChildren(...panels);
}
