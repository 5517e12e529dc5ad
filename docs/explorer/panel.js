// One panel of a figure: cells on a canvas, everything else as SVG above it.

import { placer, ticksOf } from "./axes.js";
import { familyColour, painted, paletteColour } from "./colours.js";

const namespace = "http://www.w3.org/2000/svg";
const dashes = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "6 2 1 2"];

function add(to, tag, attributes, text) {
  const made = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  to.append(made);
  return made;
}

export function colourOf(series) {
  return series.shade === null ? paletteColour(series.colour) : familyColour(series.shade);
}

export function dashOf(series) {
  return series.shade === null && !series.faint ? dashes[series.colour % dashes.length] : "";
}

// The plot's place within the panel, and its scales. `width` is the panel's.
export function layout(panel, width) {
  const small = width < 300;
  const left = 52, right = small ? 10 : 16, top = 8, bottom = 44;
  const plotWidth = Math.max(width - left - right, 40);
  const ratio = Math.abs((panel.y.last - panel.y.first) / (panel.x.last - panel.x.first));
  const wide = panel.round ? plotWidth : Math.min(plotWidth, 720);
  const high = panel.round ? plotWidth * ratio : Math.round(Math.min(Math.max(wide * 0.62, 190), 420));
  const most = 560;
  const shrink = panel.round && high > most ? most / high : 1;
  const x = placer(panel.x, wide * shrink);
  const y = placer(panel.y, high * shrink);
  return { left, top, bottom, wide: wide * shrink, high: high * shrink, width: left + wide * shrink + right,
    height: top + high * shrink + bottom, x, y: (value) => high * shrink - y(value) };
}

function addAxes(svg, panel, at) {
  const { left, top, wide, high } = at;
  const group = add(svg, "g", { class: "axes" });
  const inside = (place, most) => place >= -0.5 && place <= most + 0.5;
  for (const tick of ticksOf(panel.x, Math.max(2, Math.floor(wide / 62)))) {
    const x = at.x(tick.at);
    if (!inside(x, wide)) continue;
    add(group, "line", { x1: left + x, x2: left + x, y1: top, y2: top + high, class: panel.cells ? "tick" : "grid" });
    add(group, "text", { x: left + x, y: top + high + 16, "text-anchor": "middle" }, tick.text);
  }
  for (const tick of ticksOf(panel.y, Math.max(2, Math.floor(high / 44)))) {
    const y = at.y(tick.at);
    if (!inside(y, high)) continue;
    add(group, "line", { x1: left, x2: left + wide, y1: top + y, y2: top + y, class: panel.cells ? "tick" : "grid" });
    add(group, "text", { x: left - 6, y: top + y + 4, "text-anchor": "end" }, tick.text);
  }
  add(group, "rect", { x: left, y: top, width: wide, height: high, class: "frame" });
  add(group, "text", { x: left + wide / 2, y: top + high + 36, "text-anchor": "middle", class: "title" },
    shortened(panel.x.title, wide + 60));
  add(group, "text", { transform: `translate(13 ${top + high / 2}) rotate(-90)`, "text-anchor": "middle", class: "title" },
    shortened(panel.y.title, high + 50));
}

// Titles that would reach over the panel end in dots; the description has them whole.
function shortened(text, pixels) {
  const most = Math.floor(pixels / 6.2);
  return text.length > most ? text.slice(0, Math.max(most - 1, 1)) + "…" : text;
}

function pathOf(series, at) {
  let path = "", pen = false, before = 0;
  for (let i = 0; i < series.x.length; ++i) {
    const x = at.x(series.x[i]), y = at.y(series.y[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      pen = false;
      continue;
    }
    const point = `${x.toFixed(2)} ${y.toFixed(2)}`;
    if (pen && series.stroke === "steps") path += `L${x.toFixed(2)} ${before.toFixed(2)}`;
    path += (pen ? "L" : "M") + point;
    pen = true;
    before = y;
  }
  return path;
}

function addSeries(group, series, at) {
  const colour = colourOf(series);
  const look = { stroke: colour, "stroke-dasharray": dashOf(series), opacity: series.faint ? 0.4 : 1 };
  if (series.stroke === "line" || series.stroke === "steps") {
    add(group, "path", { d: pathOf(series, at), class: "line", ...look });
    if (series.x.length === 1) add(group, "circle", { cx: at.x(series.x[0]), cy: at.y(series.y[0]), r: 3, fill: colour });
    return;
  }
  for (let i = 0; i < series.x.length; ++i) {
    const x = at.x(series.x[i]), y = at.y(series.y[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
    if (series.stroke === "bars") add(group, "line", { x1: x, x2: x, y1: at.y(0), y2: y, stroke: colour, "stroke-width": 3 });
    if (series.stroke === "hands") add(group, "line", { x1: at.x(0), y1: at.y(0), x2: x, y2: y, stroke: colour, "stroke-width": 2.5 });
    if (series.stroke !== "bars") {
      add(group, "circle", { cx: x, cy: y, r: series.stroke === "hands" ? 4 : 2.2, fill: colour, opacity: look.opacity });
    }
  }
}

function addBand(group, band, at) {
  const points = [];
  for (let i = 0; i < band.x.length; ++i) points.push(`${at.x(band.x[i])},${at.y(band.high[i])}`);
  for (let i = band.x.length - 1; i >= 0; --i) points.push(`${at.x(band.x[i])},${at.y(band.low[i])}`);
  add(group, "polygon", { points: points.join(" "), fill: paletteColour(band.colour), opacity: 0.18 });
}

function addGuide(group, guide, at) {
  const place = guide.upright ? at.x(guide.at) : at.y(guide.at);
  const ends = guide.upright ? { x1: place, x2: place, y1: 0, y2: at.high } : { x1: 0, x2: at.wide, y1: place, y2: place };
  add(group, "line", { ...ends, class: "guide" });
  const text = guide.upright ? { x: place + 4, y: 12 } : { x: at.wide - 4, y: place - 4, "text-anchor": "end" };
  if (guide.text) add(group, "text", { ...text, class: "note" }, guide.text);
}

// The canvas that shows the cells, stretched over their part of the plot.
function cellsCanvas(panel, at) {
  const cells = panel.cells;
  const rows = cells.values.length / cells.cols;
  const canvas = painted(cells, rows, cells.cols);
  const ends = (first, step, count, place) => [place(first - step / 2), place(first + (count - 0.5) * step)];
  const [x0, x1] = ends(cells.x_first, cells.x_step, cells.cols, at.x);
  const [y0, y1] = ends(cells.y_first, cells.y_step, rows, at.y);
  Object.assign(canvas.style, {
    left: `${at.left + Math.min(x0, x1)}px`, top: `${at.top + Math.min(y0, y1)}px`,
    width: `${Math.abs(x1 - x0)}px`, height: `${Math.abs(y1 - y0)}px`,
    transform: `scale(${x1 < x0 ? -1 : 1}, ${y1 < y0 ? -1 : 1})`,
  });
  return canvas;
}

// Draws a panel into an empty element.
export function drawPanel(panel, width, to) {
  const at = layout(panel, width);
  to.style.height = `${at.height}px`;
  if (panel.cells) to.append(cellsCanvas(panel, at));
  const svg = add(to, "svg", { width: at.width, height: at.height, viewBox: `0 0 ${at.width} ${at.height}`, "aria-hidden": "true" });
  addAxes(svg, panel, at);
  const clip = `clip${drawPanel.count = (drawPanel.count ?? 0) + 1}`;
  add(add(svg, "clipPath", { id: clip }), "rect", { x: -4, y: -4, width: at.wide + 8, height: at.high + 8 });
  const group = add(svg, "g", { transform: `translate(${at.left} ${at.top})`, "clip-path": `url(#${clip})` });
  for (const band of panel.bands) addBand(group, band, at);
  for (const guide of panel.guides) addGuide(group, guide, at);
  for (const series of panel.series.filter((one) => one.faint)) addSeries(group, series, at);
  for (const series of panel.series.filter((one) => !one.faint)) addSeries(group, series, at);
  for (const note of panel.notes) {
    add(group, "text", { x: at.x(note.x), y: at.y(note.y) + 4, class: "note",
      "text-anchor": panel.round ? "middle" : "start" }, note.text);
  }
  return at;
}
