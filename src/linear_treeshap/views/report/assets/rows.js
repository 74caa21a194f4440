/* Rows: a table of them, the steps of the selected one, and the selection that links everything. */

// -- one row ---------------------------------------------------------------------------------------------

/** From the base value to the output: the largest steps, and the rest of them as one. */
function stepsOf(row, base, output) {
  const size = (feature) => Math.abs(value(feature, row));
  const order = [...content.features.keys()].sort((a, b) => size(b) - size(a) || a - b);
  const some = order.slice(0, nFeatures <= WATERFALL + 1 ? nFeatures : WATERFALL);
  const steps = [];
  let at = base;
  const add = (feature, by) => {
    steps.push({ feature, by, from: at, to: at + by });
    at += by;
  };
  for (const feature of some) add(feature, value(feature, row));
  if (some.length < nFeatures) add(null, output - at);
  return steps;
}

function drawRow() {
  const row = state.row;
  const [base, output] = [baseOf(row), outputsOf(state.output)[row]];
  const steps = stepsOf(row, base, output);
  const ends = [base, output, ...steps.map((step) => step.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const format = alike(Math.max(Math.abs(high), Math.abs(low), high - low));
  const share = (x) => (96 * x) / (high - low || 1);
  const place = (x) => `${2 + share(x - low)}%`;
  const line = (kind, name, track, text) =>
    element(
      "li",
      {},
      name,
      element("span", { class: "track" }, ...track),
      element("span", { class: `number ${kind}` }, text),
    );
  const end = (name, x) =>
    line("end", element("b", { class: "name" }, name), [mark("i", "mark", { left: place(x) })], format(x));
  const bar = ({ feature, by, from, to }) => {
    const box = { left: place(Math.min(from, to)), width: `${share(Math.abs(by))}%` };
    const track = [mark("u", "", { left: place(from) }), mark("i", direction(by), box)];
    return line(direction(by), stepName(feature, row, nFeatures - WATERFALL), track, signed(by, format));
  };
  $("waterfall").replaceChildren(end("base value", base), ...steps.map(bar), end(TOTAL, output));
  const name = content.output_names.length > 1 ? ` “${content.output_names[state.output]}”` : "";
  $("row-title").textContent = `Row ${labelOf(row)}`;
  $("row-lead").textContent = `From the base value to the ${TOTAL}${name}, the largest step first.`;
  drawSum(base, output, format);
  $("previous").disabled = $("next").disabled = nRows === 1;
}
const mark = (tag, kind, style) => element(tag, { class: kind, style });

function drawSum(base, output, format) {
  const strong = (x) => element("b", {}, format(x));
  const [sign, rest] = output < base ? [" − values ", base - output] : [" + values ", output - base];
  const equals = content.adds_up ? ` = ${TOTAL} ` : " = ";
  const sum = ["base value ", strong(base), sign, strong(rest), equals, strong(output)];
  if (content.logistic_scale !== null) {
    const probability = 1 / (1 + Math.exp(-content.logistic_scale * output));
    sum.push(`, a probability of ${number(100 * probability, 3)}\u00a0%`);
  }
  $("sum").replaceChildren(...sum);
}

function stepName(feature, row, rest) {
  if (feature === null)
    return element("span", { class: "name" }, element("em", {}, plural(rest, "other feature")));
  const name = content.features[feature];
  if (!hasData) return element("span", { class: "name", title: name }, element("span", {}, name));
  const has = datum(feature, row);
  return element(
    "span",
    { class: "name", title: `${name} = ${has}` },
    element("span", {}, name),
    element("em", {}, `= ${has}`),
  );
}

// -- all rows --------------------------------------------------------------------------------------------

const tableFeatures = () => orderOf(state.output).slice(0, TABLE_FEATURES);
let listed = []; // rows that match the search, in the order asked for

/** What a column is sorted by: numbers, or texts by their place in the alphabet. */
function sortKey(column) {
  if (column === "row") return (row) => row;
  if (column === "output") return (row) => outputsOf(state.output)[row];
  if (state.cells === "values") return (row) => value(column, row);
  const { labels, data } = columnOf(column);
  return labels === null ? (row) => data[row] : (row) => (data[row] < 0 ? NaN : data[row]);
}

function listRows() {
  const query = state.query.trim().toLowerCase();
  const has = (text) => text.toLowerCase().includes(query);
  const texts = (content.columns || []).flatMap(({ labels }, feature) =>
    labels ? [{ data: columnOf(feature).data, hits: labels.map(has) }] : [],
  );
  const matches = (row) => has(labelOf(row)) || texts.some(({ data, hits }) => hits[data[row]]);
  listed = Array.from({ length: nRows }, (_, row) => row).filter((row) => query === "" || matches(row));
  if (state.sort === null) return;
  const key = sortKey(state.sort.column);
  const sign = state.sort.descending ? -1 : 1;
  // Missing ones come last either way.
  listed.sort((a, b) => Number.isNaN(key(a)) - Number.isNaN(key(b)) || sign * (key(a) - key(b)) || a - b);
}

function drawTable() {
  drawHead();
  drawBody();
  const pages = Math.max(1, Math.ceil(listed.length / PAGE));
  const where = `${plural(listed.length, "row")}, page ${state.page + 1} of ${pages}`;
  $("page-note").textContent = listed.length === 0 ? "No row matches." : where;
  $("page-back").disabled = state.page === 0;
  $("page-on").disabled = state.page >= pages - 1;
}

function drawHead() {
  const focused = document.activeElement.dataset.column; // of a button that is about to be replaced
  const names = tableFeatures().map((feature) => [feature, content.features[feature]]);
  const heading = ([column, text]) => {
    const sorted = state.sort !== null && state.sort.column === column;
    const way = state.sort?.descending ? "descending" : "ascending";
    const arrow = { ascending: " ↑", descending: " ↓" }[way];
    return element(
      "th",
      { scope: "col", "aria-sort": sorted && way },
      element(
        "button",
        { type: "button", title: `Sort by ${text}`, onclick: () => sortBy(column), "data-column": column },
        sorted ? text + arrow : text,
      ),
    );
  };
  const columns = [["row", "Row"], ["output", capital(TOTAL)], ...names];
  const head = element("tr", {}, ...columns.map(heading));
  $("table").tHead.replaceChildren(head);
  for (const button of head.querySelectorAll("button")) if (button.dataset.column === focused) button.focus();
}

const largestValue = (feature) =>
  largestOf(valuesOf(state.output).subarray(feature * nRows, (feature + 1) * nRows));

function drawBody() {
  const features = tableFeatures();
  const outputs = outputsOf(state.output);
  const ofOutput = alike(largestOf(outputs));
  const largest = Math.max(...features.map(largestValue));
  const ofValue = alike(largest);
  const rows = listed.slice(state.page * PAGE, (state.page + 1) * PAGE);
  const current = rows.includes(state.row) ? state.row : rows[0];
  const line = (row) =>
    element(
      "tr",
      {
        "data-row": row,
        tabindex: row === current ? 0 : -1,
        "aria-selected": String(row === state.row),
        onclick: () => select(row, { focus: true }),
      },
      element("td", {}, labelOf(row)),
      element("td", {}, ofOutput(outputs[row])),
      ...features.map((feature) => cell(feature, row, largest, ofValue)),
    );
  $("table").tBodies[0].replaceChildren(...rows.map(line));
}

function cell(feature, row, largest, format) {
  const by = value(feature, row);
  const share = Math.round(55 * Math.min(1, Math.abs(by) / (largest || 1)));
  const text = state.cells === "data" ? datum(feature, row) : signed(by, format);
  return element(
    "td",
    {
      style: { background: `color-mix(in srgb, var(--${direction(by)}) ${share}%, transparent)` },
      title: `${content.features[feature]}${hasData ? ` = ${datum(feature, row)}` : ""}: value ${signed(by)}`,
    },
    text,
  );
}

function sortBy(column) {
  const again = state.sort !== null && state.sort.column === column;
  state.sort = { column, descending: again ? !state.sort.descending : column !== "row" };
  state.page = 0;
  listRows();
  drawTable();
}

function turnTo(page) {
  const pages = Math.max(1, Math.ceil(listed.length / PAGE));
  state.page = Math.max(0, Math.min(pages - 1, page));
  drawTable();
}

// -- the selected row ------------------------------------------------------------------------------------

function select(row, { focus = false } = {}) {
  state.row = row;
  const place = listed.indexOf(row);
  if (place >= 0) state.page = Math.floor(place / PAGE);
  drawRow();
  drawTable();
  markSwarm();
  markDependence();
  $("spoken").textContent = `Row ${labelOf(row)}, ${TOTAL} ${number(outputsOf(state.output)[row])}`;
  if (focus) $("table").tBodies[0].querySelector(`[data-row="${row}"]`).focus();
}

/** The row some places further on in the table, or the end of it. */
function step(by, focus) {
  if (listed.length === 0) return;
  const place = listed.indexOf(state.row);
  const next = place < 0 ? 0 : Math.max(0, Math.min(listed.length - 1, place + by));
  select(listed[next], { focus });
}

function onTableKey(event) {
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity }[
    event.key
  ];
  const row = event.target.closest("tr[data-row]");
  if (row === null) return;
  if (event.key === "Enter" || event.key === " ") select(Number(row.dataset.row), { focus: true });
  else if (by !== undefined) step(by, true);
  else return;
  event.preventDefault();
}
