#include "report_page.hpp"

namespace bearing::tool {

std::string_view page_style() {
  return R"(:root {
  color-scheme: light dark;
  --ground: #ffffff; --words: #1f2328; --quiet: #57606a; --line: #d0d7de; --axes: #656d76; --grid: #e4e7eb;
  --link: #0550ae; --warning: #fff3cd; --warning-line: #9a6700;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --words: #e6edf3; --quiet: #9da7b1; --line: #3d444d; --axes: #8b949e; --grid: #282e36;
    --link: #79b8ff; --warning: #2e2608; --warning-line: #d4a72c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 62rem; background: var(--ground); color: var(--words);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 0.75rem; font-size: 1.4rem; line-height: 1.3; }
h3 { margin: 1.75rem 0 0.5rem; font-size: 1.1rem; }
header p, footer { color: var(--quiet); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: 0.9rem; }
a { color: var(--link); }
a:focus-visible, button:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -100vw; padding: 0.5rem 1rem; background: var(--ground); }
.skip:focus { left: 0.5rem; top: 0.5rem; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 1rem 0; padding: 0.75rem 0; list-style: none;
  border: solid var(--line); border-width: 1px 0; }
.warnings { margin-top: 1.5rem; padding: 0.25rem 1.25rem 0.5rem; background: var(--warning);
  border-left: 5px solid var(--warning-line); }
.warnings h2 { margin-top: 0.75rem; }
code { font: 0.9em ui-monospace, "DejaVu Sans Mono", monospace; }
dl { margin: 0.75rem 0; }
dl div { display: grid; grid-template-columns: 11rem 1fr; gap: 0 1rem; padding: 0.25rem 0;
  border-bottom: 1px solid var(--line); }
dt { color: var(--quiet); }
dd { margin: 0; }
table { width: 100%; margin: 0.75rem 0; border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { padding: 0.25rem 0; text-align: left; color: var(--quiet); }
th, td { padding: 0.35rem 0.9rem 0.35rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
tbody th { min-width: 8.5rem; font-weight: 600; }
th, td { overflow-wrap: normal; }
tbody th, td:last-child { overflow-wrap: anywhere; }
th button { padding: 0; border: 0; background: none; color: var(--link); font: inherit; font-weight: 600;
  text-align: left; cursor: pointer; }
th[aria-sort="ascending"] button::after { content: " \2191"; }
th[aria-sort="descending"] button::after { content: " \2193"; }
details { margin: 0.75rem 0; }
details table caption { display: none; }
summary { cursor: pointer; color: var(--link); }
figure { margin: 1.75rem 0; }
figure svg { display: block; width: 100%; height: auto; max-width: 900px; }
figure .narrow { display: none; }
figure .narrow svg { max-width: 340px; margin: 0 auto; }
figcaption { margin-top: 0.5rem; color: var(--quiet); font-size: 0.95rem; }
svg [fill="#ffffff"] { fill: var(--ground); }
svg [stroke="#ffffff"] { stroke: var(--ground); }
svg [fill="#1f2328"] { fill: var(--words); }
svg [stroke="#1f2328"] { stroke: var(--words); }
svg [fill="#656d76"] { fill: var(--axes); }
svg [stroke="#656d76"] { stroke: var(--axes); }
svg [fill="#e4e7eb"] { fill: var(--grid); }
svg [stroke="#e4e7eb"] { stroke: var(--grid); }
@media screen and (max-width: 44rem) {
  body { padding: 1rem; }
  h1 { font-size: 1.5rem; }
  dl div { grid-template-columns: 1fr; }
  figure .wide { display: none; }
  figure .narrow { display: block; }
  table, tbody, tr, th, td { display: block; }
  caption { display: block; }
  thead { display: none; }
  table.sorted thead, table.sorted thead tr { display: flex; flex-wrap: wrap; gap: 0 1rem; }
  thead th { border: 0; }
  tbody tr { padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  tbody th, td { min-width: 0; padding: 0.1rem 0; border: 0; overflow-wrap: anywhere; }
  td::before { content: attr(data-label) ": "; color: var(--quiet); }
}
@media print {
  :root { --ground: #ffffff; --words: #000000; --quiet: #000000; --line: #888888; --axes: #444444; --grid: #dddddd;
    --link: #000000; --warning: #ffffff; --warning-line: #000000; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, .skip { display: none; }
  h2, h3, caption, summary { break-after: avoid; }
  figure svg { max-width: 15cm; }
  figure, tr, dl div, li { break-inside: avoid; }
  thead { display: table-header-group; }
}
)";
}

std::string_view page_script() {
  return R"(for (const table of document.querySelectorAll("table.sortable")) {
  table.classList.add("sorted");
  const rows = table.tBodies[0];
  const value = (row, column) => row.cells[column].dataset.order ?? row.cells[column].textContent;
  const number = text => text.trim() === "" ? NaN : Number(text.replaceAll(",", ""));
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? -1 : 1;
    return Number.isNaN(x) ? a.localeCompare(b) : x - y;
  };
  [...table.tHead.rows[0].cells].forEach((heading, column, headings) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...rows.rows].sort((a, b) => compare(value(a, column), value(b, column)) * (down ? -1 : 1));
      rows.append(...sorted);
    });
  });
}
)";
}

}  // namespace bearing::tool
