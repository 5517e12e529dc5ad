// The choice of versions: the list is in versions.js beside the versions' folders, as a page opened from a file may read no
// JSON. A choice opens the same page of the other version, or its first page where it has none of that name.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector(".versions");
  const select = box && box.querySelector("select");
  if (!select || !window.bearingVersions) return;
  const { version, page, root } = box.dataset;
  select.replaceChildren(...window.bearingVersions.map(({ name }) => new Option(name, name, name === version, name === version)));
  select.addEventListener("change", () => {
    const chosen = window.bearingVersions.find(({ name }) => name === select.value);
    location.href = root + chosen.name + "/" + (chosen.pages.includes(page) ? page : "index.html");
  });
});
