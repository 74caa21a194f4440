/* The page as a whole: numbers at a glance, notes, choices, and light or dark. */

function drawTiles() {
  const outputs = Float64Array.from(outputsOf(state.output)).sort();
  const format = alike(largestOf(outputs));
  const at = (share) => format(outputs[Math.round(share * (outputs.length - 1))]);
  const bases = basesOf(state.output);
  const [first] = orderOf(state.output);
  const tiles = [
    ["Base value", bases.length > 1 ? "one per row" : format(bases[0]), "before any feature is known"],
    [
      content.adds_up && content.unit === null ? "Outputs" : capital(TOTAL),
      nRows === 1 ? at(0) : `${at(0)} to ${at(1)}`,
      nRows === 1 ? "of the row" : `median ${at(0.5)}`,
    ],
    [
      "Most important",
      content.features[first],
      `moves outputs by ${number(importanceOf(first), 3)} on average`,
    ],
    [
      "Rows",
      content.n_rows_explained.toLocaleString("en"),
      nRows < content.n_rows_explained
        ? `${nRows.toLocaleString("en")} of them on this page`
        : "all on this page",
    ],
  ];
  $("tiles").replaceChildren(
    ...tiles.map(([name, shown, more]) =>
      element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, element("b", {}, shown), element("small", {}, more)),
      ),
    ),
  );
}

function drawNotes() {
  const all = content.n_rows_explained;
  const outputs = content.output_names.length;
  const sample = (n) => `${n.toLocaleString("en")} of ${all.toLocaleString("en")} rows, chosen at random. `;
  $("size").textContent = [
    plural(all, "row"),
    plural(nFeatures, "feature"),
    ...(outputs > 1 ? [plural(outputs, "output")] : []),
  ].join(" · ");
  const dots = pictured.length < all ? `Dots: ${sample(pictured.length)}Bars: all rows. ` : "";
  const grey = hasData ? "" : "This explanation came without the values of features, so the dots are grey.";
  $("swarm-note").textContent = dots + grey;
  $("swarm-scale").hidden = !hasData;
  if (hasData && content.columns.some((column) => column.labels))
    $("swarm-scale").append(element("span", {}, "(grey: text, missing)"));
  const some = nRows < all ? sample(nRows) : "";
  const which = nFeatures > TABLE_FEATURES ? `The ${TABLE_FEATURES} most important features; red` : "Red";
  $("rows-note").textContent = `${some}${which} cells move the output up, blue ones down.`;
  if (!content.adds_up)
    $("meaning").textContent =
      "The values on this page do not add up to the output of the model; their sum is shown instead.";
  $("facts").replaceChildren(
    ...content.facts.map(([name, text]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, text)),
    ),
  );
}

function drawAll() {
  drawTiles();
  drawFeatures();
  listRows();
  drawRow();
  drawTable();
  return Promise.all([drawSwarm(), drawDependence()]);
}

function fillChoices() {
  const counts = [...SHOWN.filter((n) => n < nFeatures), nFeatures].filter((n) => n <= SHOWN.at(-1));
  const names = content.features.map((name, feature) => [feature, name]);
  const sizes = counts.map((n) => [n, n === nFeatures ? `all ${n}` : n]);
  options($("output"), Object.entries(content.output_names), state.output);
  options($("shown"), sizes, state.shown);
  options($("feature"), names, state.feature);
  options($("partner"), [["auto", "likely interaction"], ["none", "one colour"], ...names], state.partner);
  options($("cells"), [...(hasData ? [["data", "feature values"]] : []), ["values", "values"]], state.cells);
  $("output-choice").hidden = content.output_names.length < 2;
  $("shown-choice").hidden = counts.length < 2;
  $("dependence-card").hidden = !hasData;
  $("row-card").classList.toggle("half", hasData);
}

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, act);
  on("output", "change", () => {
    state.output = Number($("output").value);
    drawAll();
  });
  on("shown", "change", () => {
    state.shown = Number($("shown").value);
    drawFeatures();
    drawSwarm();
  });
  on("feature", "change", () => lookAt(Number($("feature").value)));
  on("partner", "change", () => {
    state.partner = $("partner").value;
    drawDependence();
  });
  on("cells", "change", () => {
    state.cells = $("cells").value;
    listRows();
    drawTable();
  });
  on("search", "input", () => {
    state.query = $("search").value;
    state.page = 0;
    listRows();
    drawTable();
  });
  on("previous", "click", () => step(-1, false));
  on("next", "click", () => step(1, false));
  on("page-back", "click", () => turnTo(state.page - 1));
  on("page-on", "click", () => turnTo(state.page + 1));
  on("table", "keydown", onTableKey);
  on("theme", "click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  drawSwarm();
  drawDependence();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
fillChoices();
listen();
drawNotes();
drawAll().then(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
