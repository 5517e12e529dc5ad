// Colours as the library gives them: its palette, and its maps in 256 steps.

let maps = null;

export function useColours(colours) {
  const packed = (map) =>
    Uint32Array.from({ length: map.length / 3 }, (_, i) =>
      (255 << 24) | (map[3 * i + 2] << 16) | (map[3 * i + 1] << 8) | map[3 * i]);
  maps = {
    palette: packed(colours.palette),
    sequential: packed(colours.sequential),
    diverging: packed(colours.diverging),
    family: packed(colours.family),
  };
}

const css = (packed) => `rgb(${packed & 255} ${(packed >> 8) & 255} ${(packed >> 16) & 255})`;

export const paletteColour = (i) => css(maps.palette[i % maps.palette.length]);
export const familyColour = (x) => css(maps.family[Math.round(255 * Math.min(Math.max(x, 0), 1))]);

// Canvases with their pixels, which the next figure takes again: to make one costs more than to draw on it.
const spare = { cells: [], scale: [] };
const taken = { cells: 0, scale: 0 };

export function beginFigure() {
  taken.cells = taken.scale = 0;
}

function spareCanvas(use, rows, cols) {
  const canvas = (spare[use][taken[use]++] ??= document.createElement("canvas"));
  if (!canvas.image || canvas.width !== cols || canvas.height !== rows) {
    canvas.width = cols;
    canvas.height = rows;
    canvas.image = canvas.getContext("2d").createImageData(cols, rows);
  }
  return canvas;
}

// A canvas with a matrix on it, a pixel for each number, row 0 where the pixels begin; nothing where there is no number.
export function painted(cells, rows, cols, use = "cells") {
  const canvas = spareCanvas(use, rows, cols);
  const pixels = new Uint32Array(canvas.image.data.buffer);
  const numbers = cells.values;
  if (cells.map === "categories") {
    const palette = maps.palette;
    for (let i = 0; i < pixels.length; ++i) {
      pixels[i] = numbers[i] === numbers[i] ? palette[Math.round(numbers[i]) % palette.length] : 0;
    }
  } else {
    const map = maps[cells.map];
    const wide = cells.high > cells.low;
    const low = wide ? cells.low : cells.high - 0.5;
    const scale = wide ? 255 / (cells.high - cells.low) : 255;
    for (let i = 0; i < pixels.length; ++i) {
      const at = (numbers[i] - low) * scale;
      pixels[i] = at === at ? map[at <= 0 ? 0 : at >= 255 ? 255 : (at + 0.5) | 0] : 0;
    }
  }
  canvas.getContext("2d").putImageData(canvas.image, 0, 0);
  return canvas;
}

// A strip of all colours of a map, from low to high.
export function paintedScale(map) {
  return painted({ map, low: 0, high: 255, values: Float64Array.from({ length: 256 }, (_, i) => i) }, 1, 256, "scale");
}
