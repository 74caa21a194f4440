/* What the page is made of: elements, what is looked at, and colours.

   Names and feature values are other people's text. They enter the page through textContent only. */

// -- elements --------------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, given] of Object.entries(attributes)) {
    if (name === "style")
      for (const [property, set] of Object.entries(given)) made.style.setProperty(property, set);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), given);
    else if (given !== null && given !== undefined && given !== false) made.setAttribute(name, given);
  }
  made.append(...children); // strings become text, never markup
  return made;
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([key, text]) => element("option", { value: key }, text)));
  select.value = String(chosen);
}

// -- state: what is looked at ----------------------------------------------------------------------------

const state = {
  output: 0,
  shown: Math.min(nFeatures, 10), // features in the list and the swarm
  feature: orderOf(0)[0], // the one looked at closely
  partner: "auto", // the feature that colours its dots, "auto" or "none"
  row: 0, // the selected one
  cells: hasData ? "data" : "values", // what the table shows
  sort: null, // or {column, descending}
  query: "",
  page: 0,
};
const SHOWN = [10, 20, 50, 100];
const PAGE = 15;
const TABLE_FEATURES = 8;
const WATERFALL = 10;
const PARTNERS = 30; // features that are tried as partners of another
const ROW_HEIGHT = 36; // of a feature, as in the style sheet

// -- colours ---------------------------------------------------------------------------------------------

const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7a00", "#7f58c9"];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** Blue to red in 65 steps, by the style sheet's colours. */
function palette() {
  const stops = ["--down", "--middle", "--up"].map((name) => channels(css(name)));
  return Array.from({ length: 65 }, (_, i) => {
    const [from, to] = i < 32 ? [stops[0], stops[1]] : [stops[1], stops[2]];
    const share = i < 32 ? i / 32 : (i - 32) / 32;
    const mixed = from.map((c, k) => Math.round(c + (to[k] - c) * share));
    return "#" + mixed.map((c) => c.toString(16).padStart(2, "0")).join("");
  });
}

/** Ranks from 0 to 1 of a column's numbers among the rows drawn: so extremes do not take all the contrast. */
const ranksOf = once((feature) => {
  const ranks = new Float64Array(nRows).fill(NaN);
  const { labels, data } = columnOf(feature);
  if (labels !== null) return ranks;
  const sorted = Float64Array.from(pictured, (row) => data[row])
    .filter((x) => !Number.isNaN(x))
    .sort();
  const last = sorted.length - 1;
  for (const row of pictured) {
    const x = data[row];
    if (Number.isNaN(x)) continue;
    const below = bisect(sorted, x, false);
    const above = bisect(sorted, x, true) - 1;
    ranks[row] = last > 0 && sorted[0] < sorted[last] ? (below + above) / 2 / last : 0.5;
  }
  return ranks;
});

function bisect(sorted, x, right) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x || (right && sorted[middle] === x)) low = middle + 1;
    else high = middle;
  }
  return low;
}
