// The page: a state, controls that change it, and a picture of it at most once a frame.

import { useColours } from "./colours.js";
import { choice, slider, wholeSteps } from "./controls.js";
import { encodingList, memberControls } from "./encodings.js";
import { drawFigure, make } from "./figure.js";
import { Library, LibraryError, unpacked } from "./library.js";
import { modelReport } from "./model.js";
import { fixed, general, shortest } from "./numbers.js";
import { commandOf, fragmentOf, plainState, stateOf, textOf } from "./state.js";
import { first, views } from "./views.js";
import { compared, keptNumbers, sentence } from "./words.js";

const $ = (id) => document.getElementById(id);
const bytes = await unpacked($("wasm").textContent.trim());
const library = new Library(bytes);
const catalog = library.ask({ ask: "catalog" });
useColours(catalog.colours);

globalThis.bearing = Object.assign(library, { numbers: { fixed, general, shortest } }); // for the console and the tests

let state = stateOf(location.hash);
let sayings = [];
let shown = null; // the last figure, with its numbers
let change = null; // what was moved since
let waiting = false;

const isModels = (said) => said && said.name.startsWith("@");
const kindOf = (view) => catalog.kinds.find((kind) => kind.name === view);

// What a view usually shows; null where the library knows better: a model has sizes and a length of its own.
function usualOf(name, option) {
  const own = isModels(state.a) || isModels(state.b);
  const sized = name === "dim" || name === "heads" || (name === "length" && state.view === "wavelengths");
  return own && sized ? null : option.usual;
}

// What the library is asked for: the state, and what a view usually shows.
function optionsOf(view) {
  const options = {};
  for (const [name, option] of Object.entries(views[view].options)) {
    const value = state.options[name] ?? usualOf(name, option);
    if (!option.here && value !== null && value !== undefined) options[name] = value;
  }
  if (view === "hands") options.positions = [0, 1, 2, 3].map((i) => (state.options.position ?? 0) + i);
  return options;
}

function question() {
  const encodings = [state.a, views[state.view].single ? null : state.b].filter((one) => one).map(textOf);
  return { ask: "figure", kind: state.view, encodings, options: optionsOf(state.view), ...(state.config ? { config: state.config } : {}) };
}

// The scores at a distance, from a figure of curves by distance; a guide stands there in every panel.
function readDistance(figure) {
  if (state.view !== "decay") return "";
  const at = state.options.distance ?? views.decay.options.distance.usual;
  const said = [];
  for (const panel of figure.panels) {
    if (at > panel.x.last || at < panel.x.first) return `No token is ${at} tokens away: the picture ends at ${panel.x.last}.`;
    const scores = panel.series.filter((series) => !series.faint).flatMap((series) => {
      const i = series.x.indexOf(at);
      return i < 0 ? [] : [`${series.label || "the score"} ${general(series.y[i], 4)}`];
    });
    if (scores.length > 0) said.push(`${panel.title}: ${scores.join(", ")}`);
    panel.guides = [...panel.guides, { upright: true, at, text: `${at}` }];
  }
  return said.length > 0 ? `${at} tokens apart, ${said.join("; ")}.` : "";
}

function showError(error) {
  $("error").hidden = !error;
  $("error").textContent = error ?? "";
  $("figure").hidden = Boolean(error);
  if (!error) return;
  $("title").textContent = views[state.view].title;
  for (const id of ["reading", "changed", "text", "readout"]) $(id).textContent = "";
}

function showText(figure, before) {
  const words = before ? compared(before.text, figure.text) : [{ word: figure.text, was: null }];
  $("text").replaceChildren(...words.flatMap(({ word, was }, i) => [i > 0 ? " " : "",
    was === null ? word : make("mark", {}, word, make("small", {}, ` (was ${was})`))]));
  $("changed").textContent = before ? sentence(change, before, figure) : "";
}

function draw() {
  waiting = false;
  history.replaceState(null, "", fragmentOf(state));
  $("command").textContent = commandOf(state, optionsOf(state.view));
  $("asks").textContent = views[state.view].asks;
  let figure;
  try {
    figure = library.ask(question());
  } catch (error) {
    if (!(error instanceof LibraryError)) throw error;
    return showError(error.message);
  }
  showError(null);
  $("title").textContent = figure.title;
  $("reading").textContent = readDistance(figure);
  drawFigure(figure, $("figure"), $("readout"));
  showText(figure, change ? shown : null);
  shown = keptNumbers(figure);
  change = null;
}

function redraw(what) {
  change = what ?? change;
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(draw);
}

// Controls

function showViews() {
  $("views").replaceChildren(...Object.entries(views).map(([name, view]) => {
    const button = make("button", { type: "button", "aria-pressed": String(name === state.view), title: kindOf(name).shows }, view.title);
    button.addEventListener("click", () => {
      state.view = name;
      state.options = {};
      shown = null;
      showControls();
      $("views").children[Object.keys(views).indexOf(name)].focus();
      redraw();
    });
    return button;
  }));
}

function optionControl(name, option) {
  const tell = (value, from) => {
    if (value === null || value === undefined) delete state.options[name];
    else state.options[name] = value;
    redraw({ what: option.label, from, to: value });
  };
  if (option.choices) {
    const [usual] = option.choices;
    const said = name === "causal" ? { yes: true, no: false } : null;
    const now = state.options[name];
    const value = now === undefined ? usual : said ? (now ? "yes" : "no") : now;
    return choice({ ...option, value, change: (text) => tell(text === usual ? null : said ? said[text] : text, undefined) });
  }
  const usual = usualOf(name, option);
  let now = state.options[name] ?? usual;
  const steps = wholeSteps(option.least, option.most, option.even);
  return slider({ ...option, steps, value: now, whole: true, change: (value) => {
    const from = now;
    now = value ?? usual;
    tell(value, from);
  } });
}

function showOptions() {
  const kind = kindOf(state.view);
  const rows = Object.entries(views[state.view].options)
    .filter(([name, option]) => option.here || kind.takes.includes(name))
    .map(([name, option]) => optionControl(name, option));
  $("options").replaceChildren(...rows);
}

function showEncoding(which) {
  const said = state[which];
  const select = $(`encoding-${which}`);
  encodingList(select, catalog, sayings, which === "b");
  select.value = said ? said.name : "";
  const entry = said && catalog.encodings.find((one) => one.name === said.name);
  $(`does-${which}`).textContent = entry ? `${entry.does}. ${entry.authors} ${entry.year}, ${entry.source}.` : "";
  const rows = said ? membersOf(which, said) : [];
  $(`members-${which}`).replaceChildren(...rows);
}

function membersOf(which, said) {
  let saying;
  try {
    saying = library.ask({ ask: "saying", encoding: textOf(said), ...(state.config ? { config: state.config } : {}) });
  } catch (error) {
    if (!(error instanceof LibraryError)) throw error;
    return [];
  }
  return memberControls(saying, said, (member, value, from) => {
    if (value === null) delete said.keys[member.name];
    else said.keys[member.name] = String(value);
    redraw({ what: `${said.name}'s ${member.name.replace(/_/g, " ")}`, from, to: value });
  });
}

function showControls() {
  showViews();
  showOptions();
  showEncoding("a");
  showEncoding("b");
  $("encoding-b").disabled = Boolean(views[state.view].single);
}

for (const which of ["a", "b"]) {
  $(`encoding-${which}`).addEventListener("change", (event) => {
    state[which] = event.target.value ? { name: event.target.value, keys: {} } : null;
    shown = null;
    showOptions();
    showEncoding(which);
    redraw();
  });
}

$("reset").addEventListener("click", () => {
  const { view } = state;
  state = { ...plainState(), view, a: { name: first[view] ?? "rope", keys: {} } };
  sayings = [];
  shown = null;
  showControls();
  redraw();
});

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    $("changed").textContent = "The link is copied.";
  } catch {
    $("changed").textContent = "This browser does not let a page copy: take the link from the address bar.";
  }
});

// Models

const samples = JSON.parse($("samples").textContent);

function minified(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

// Reads what stands in the box; true if the library could.
function readModel(text) {
  $("config-error").hidden = true;
  try {
    const model = library.ask({ ask: "model", config: text });
    sayings = model.sayings;
    $("model").replaceChildren(...modelReport(model));
    return true;
  } catch (error) {
    if (!(error instanceof LibraryError)) throw error;
    $("model").replaceChildren();
    $("config-error").textContent = error.message;
    $("config-error").hidden = false;
    return false;
  }
}

$("read").addEventListener("click", () => {
  if (!readModel($("config").value)) return;
  if (sayings.length === 0) return showControls();
  state.config = minified($("config").value);
  state.a = { name: sayings[0].text, keys: {} };
  state.b = sayings.length > 1 ? { name: sayings[1].text, keys: {} } : null;
  state.view = sayings[0].name.startsWith("rope") ? "wavelengths" : "heatmap";
  state.options = {};
  shown = null;
  showControls();
  redraw();
});

$("sample").append(...Object.keys(samples).map((name) => make("option", { value: name }, name)));
$("sample").addEventListener("change", (event) => {
  if (!event.target.value) return;
  $("config").value = samples[event.target.value];
  $("read").click();
});

function begin() {
  if (!views[state.view]) state.view = "heatmap";
  if (state.config) {
    $("config").value = state.config;
    readModel(state.config);
  }
  shown = null;
  showControls();
  draw();
}

addEventListener("hashchange", () => {
  if (location.hash === fragmentOf(state)) return;
  state = stateOf(location.hash);
  begin();
});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  redraw();
});
$("about").textContent = `${catalog.encodings.length} names of encodings, ${catalog.kinds.length} kinds of pictures, `
  + `${general(bytes.length / 1024, 4)} KiB of WebAssembly. Nothing is sent anywhere.`;
begin();
document.documentElement.dataset.ready = "yes";
