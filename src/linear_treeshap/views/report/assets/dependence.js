/* One feature closely: values against what rows have there, coloured by another feature. */

/** The feature with the strongest apparent interaction with that of "output:feature"; null if there is none.

    That is the one whose numbers best tell apart the values of rows that are alike in the feature: the mean
    absolute correlation within twenty groups of such rows. */
const likelyPartner = once((key) => {
  const [output, feature] = key.split(":").map(Number);
  const { labels, data } = columnOf(feature);
  const rows = Array.from(pictured)
    .filter((row) => labels !== null || Number.isFinite(data[row]))
    .sort((a, b) => data[a] - data[b]);
  const size = Math.max(10, Math.ceil(rows.length / 20));
  const values = rows.map((row) => valuesOf(output)[feature * nRows + row]);
  let best = { feature: null, score: 0.05 };
  for (const other of orderOf(output).slice(0, PARTNERS)) {
    if (other === feature || columnOf(other).labels !== null) continue;
    const ranks = rows.map((row) => ranksOf(other)[row]);
    let score = 0;
    for (let start = 0; start < rows.length; start += size) {
      const group = [ranks, values].map((all) => all.slice(start, start + size));
      score += (Math.abs(correlation(...group)) * group[0].length) / rows.length;
    }
    if (score > best.score) best = { feature: other, score };
  }
  return best.feature;
});

function correlation(a, b) {
  let [n, sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0, 0];
  a.forEach((p, i) => {
    if (Number.isNaN(p)) return;
    const q = b[i];
    n += 1;
    sa += p;
    sb += q;
    saa += p * p;
    sbb += q * q;
    sab += p * q;
  });
  const spread = (saa - (sa * sa) / n) * (sbb - (sb * sb) / n);
  return n > 2 && spread > 1e-18 ? (sab - (sa * sb) / n) / Math.sqrt(spread) : 0;
}

/** Where rows lie along a feature: at its numbers, or at a place per text; those without either at an edge. */
function along(feature) {
  const { labels, data } = columnOf(feature);
  if (labels !== null) {
    const x = Float64Array.from(data, (code, row) => code + scatterOf(row) * 0.5);
    return { x, odd: 0, range: [data.includes(-1) ? -1.4 : -0.6, labels.length - 0.4], labels };
  }
  const finite = data.filter(Number.isFinite);
  const low = finite.reduce((least, x) => Math.min(least, x), finite[0] ?? 0);
  const high = finite.reduce((most, x) => Math.max(most, x), finite[0] ?? 0);
  const span = high - low || Math.abs(high) * 0.1 || 1;
  const edge = (x) => (x === Infinity ? high + span * 0.08 : low - span * 0.08);
  const x = Float64Array.from(data, (x) => (Number.isFinite(x) ? x : edge(x)));
  const odd = pictured.filter((row) => !Number.isFinite(data[row])).length;
  const [least, most] = x.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [low, high]);
  return { x, odd, range: [least - span * 0.04, most + span * 0.04], labels: null };
}

/** Between −½ and ½, the same for a row each time. */
const scatterOf = (row) => (Math.imul(row + 1, 2654435761) >>> 0) / 2 ** 32 - 0.5;

let dependence = null; // where rows lie, and the source of the selected row's ring

/** The feature that colours the dots; null if none does. */
function chosenPartner() {
  if (state.partner === "none") return null;
  return state.partner === "auto" ? likelyPartner(`${state.output}:${state.feature}`) : Number(state.partner);
}

function drawDependence() {
  if (!hasData) return undefined;
  const feature = state.feature;
  const { x, odd, range, labels } = along(feature);
  const xs = Float64Array.from(pictured, (row) => x[row]);
  const ys = Float64Array.from(pictured, (row) => value(feature, row));
  const made = figure(330, { x_range: range });
  made.xaxes[0].ticker.desired_num_ticks = $("dependence").clientWidth < 420 ? 4 : 6;
  made.y_range.range_padding = 0.08;
  if (labels !== null) nameTicks(made.xaxes[0], labels);
  made.xgrid.grid_line_color = null;
  made.add_layout(zeroLine("width"));
  const size = pictured.length > 500 ? 5.5 : 7;
  const dots = new Bokeh.ColumnDataSource({ data: { x: xs, y: ys, color: colourBy(chosenPartner()) } });
  made.scatter(
    { field: "x" },
    { field: "y" },
    { source: dots, size, line_color: null, fill_alpha: 0.75, fill_color: { field: "color" } },
  );
  const ring = new Bokeh.ColumnDataSource({ data: { x: [], y: [] } });
  made.scatter(
    { field: "x" },
    { field: "y" },
    { source: ring, size: size + 6, fill_color: null, line_color: css("--ink"), line_width: 2 },
  );
  dependence = { feature, x, ring };
  markDependence();
  $("dependence-axis").textContent = content.features[feature];
  $("dependence-note").textContent =
    odd === 0 ? "" : `${plural(odd, "row")} without a finite number at the edge.`;
  const place = $("dependence");
  place.setAttribute("aria-label", `Values of ${content.features[feature]} against what each row has there`);
  return show("dependence", made, (event) => {
    const found = nearest(event, 0, xs.length, xs, ys, made);
    return found === null ? null : { row: pictured[found], feature, place };
  });
}

function nameTicks(axis, labels) {
  const every = Math.ceil(labels.length / 8);
  const ticks = [-1, ...[...labels.keys()].filter((code) => code % every === 0)];
  const cut = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
  axis.ticker = new Bokeh.FixedTicker({ ticks, minor_ticks: [] });
  // PlainText: a plain string would be read as TeX where it has dollar signs.
  axis.major_label_overrides = new Map(
    ticks.map((code) => [code, new Bokeh.PlainText({ text: cut(labels[code] ?? "missing") })]),
  );
  if (labels.length > 4) axis.major_label_orientation = 0.5;
}

/** The colour of each dot by another feature, and the legend that says so. */
function colourBy(partner) {
  const legend = $("dependence-scale");
  if (partner === null) {
    legend.replaceChildren();
    return Array.from(pictured, () => css("--down"));
  }
  const { labels, data } = columnOf(partner);
  const name = element("span", {}, content.features[partner]);
  if (labels === null) {
    legend.replaceChildren(element("span", {}, "low"), element("i"), element("span", {}, "high "), name);
    const [colours, missing, ranks] = [palette(), css("--missing"), ranksOf(partner)];
    return Array.from(pictured, (row) =>
      Number.isNaN(ranks[row]) ? missing : colours[Math.round(ranks[row] * 64)],
    );
  }
  const counts = new Map();
  for (const row of pictured) if (data[row] >= 0) counts.set(data[row], (counts.get(data[row]) || 0) + 1);
  const most = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, CATEGORIES.length);
  legend.replaceChildren(
    name,
    ...most.map((code, i) =>
      element("span", { "data-colour": "", style: { "--dot": CATEGORIES[i] } }, labels[code]),
    ),
  );
  const others = { "data-colour": "", style: { "--dot": css("--missing") } };
  if (counts.size > most.length) legend.append(element("span", others, "others"));
  return Array.from(pictured, (row) => {
    const i = most.indexOf(data[row]);
    return i < 0 ? css("--missing") : CATEGORIES[i];
  });
}

function markDependence() {
  if (dependence === null) return;
  dependence.ring.data = { x: [dependence.x[state.row]], y: [value(dependence.feature, state.row)] };
}
