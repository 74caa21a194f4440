/* What matters: a list of features with bars, and beside it their values, a dot for every row. */

const shownFeatures = () => orderOf(state.output).slice(0, state.shown);

function drawFeatures() {
  const features = shownFeatures();
  const largest = importanceOf(features[0]) || 1;
  const format = alike(largest, 3);
  $("features").replaceChildren(
    ...features.map((feature) =>
      element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            "aria-pressed": String(feature === state.feature),
            title: content.features[feature],
            onclick: () => lookAt(feature),
            "data-member": feature,
          },
          element("b", {}, content.features[feature]),
          element("i", { style: { "--share": `${(100 * importanceOf(feature)) / largest}%` } }),
          element("span", {}, format(importanceOf(feature))),
        ),
      ),
    ),
  );
}

/** Show a feature closely. */
function lookAt(feature) {
  state.feature = feature;
  $("feature").value = String(feature);
  for (const button of $("features").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.member) === feature));
  }
  drawDependence();
}

/** How far from its line each dot is drawn: dots of about the same value above and below each other. */
function stack(values, width) {
  const taken = new Map();
  const offsets = new Float64Array(values.length);
  values.forEach((x, i) => {
    const bin = Math.round(x / width);
    const rank = taken.get(bin) || 0;
    taken.set(bin, rank + 1);
    offsets[i] = rank % 2 === 0 ? rank / 2 : -(rank + 1) / 2;
  });
  const fullest = Math.max(1, ...taken.values());
  const step = Math.min(0.09, 0.84 / fullest);
  return offsets.map((offset) => offset * step);
}

/** The dots of some features: where each is, how its feature's number ranks, and the range of all values. */
function layOut(features) {
  let [low, high] = [0, 0];
  for (const feature of features) {
    for (let row = 0; row < nRows; row++) {
      low = Math.min(low, value(feature, row));
      high = Math.max(high, value(feature, row));
    }
  }
  const span = high - low || 1;
  const n = features.length * pictured.length;
  const [x, y, rank] = [new Float64Array(n), new Float64Array(n), new Float64Array(n).fill(NaN)];
  features.forEach((feature, line) => {
    const values = Array.from(pictured, (row) => value(feature, row));
    const offsets = stack(values, span / 220);
    pictured.forEach((row, i) => {
      const k = line * pictured.length + i;
      x[k] = values[i];
      y[k] = line + offsets[i];
      if (hasData) rank[k] = ranksOf(feature)[row];
    });
  });
  return { features, x, y, rank, low: low - span * 0.03, high: high + span * 0.03 };
}

let swarm = null; // what is drawn: the dots, as they are laid out

function drawSwarm() {
  swarm = layOut(shownFeatures());
  const { features, x, y, rank, low, high } = swarm;
  const made = figure(features.length * ROW_HEIGHT + 24, {
    frame_height: features.length * ROW_HEIGHT,
    x_range: [low, high],
    y_range: [features.length - 0.5, -0.5],
  });
  made.xaxes[0].ticker.desired_num_ticks = $("swarm").clientWidth < 300 ? 3 : 7;
  made.yaxis.visible = false;
  made.ygrid.ticker = new Bokeh.FixedTicker({ ticks: [...features.keys()] });
  made.ygrid.grid_line_color = css("--faint");
  made.add_layout(zeroLine("height"));
  const colours = { palette: palette(), low: 0, high: 1, nan_color: css("--missing") };
  const look = {
    source: new Bokeh.ColumnDataSource({ data: { x, y, rank } }),
    size: pictured.length > 500 ? 4.5 : 6,
    line_color: null,
    fill_alpha: 0.75,
    fill_color: { field: "rank", transform: new Bokeh.LinearColorMapper(colours) },
  };
  made.scatter({ field: "x" }, { field: "y" }, look);
  markSwarm();
  const place = $("swarm");
  const [some, rows] = [plural(features.length, "feature"), plural(pictured.length, "row")];
  place.setAttribute("aria-label", `Values of ${some} for ${rows}; the table below has the numbers`);
  return show("swarm", made, (event) => {
    const line = Math.round(event.y);
    if (line < 0 || line >= features.length) return null;
    const found = nearest(event, line * pictured.length, pictured.length, x, y, made);
    return found === null ? null : { row: pictured[found % pictured.length], feature: features[line], place };
  });
}

/** Rings around the selected row's dots. */
function markSwarm() {
  if (swarm === null) return;
  const at = pictured.indexOf(state.row);
  // Beside the picture, not in it: tens of thousands of dots need not be painted again for ten rings.
  $("rings").replaceChildren(
    ...swarm.features.map((feature, line) => {
      const share = (value(feature, state.row) - swarm.low) / (swarm.high - swarm.low);
      const y = at < 0 ? line : swarm.y[line * pictured.length + at];
      return element("i", { style: { left: `${100 * share}%`, top: `${(y + 0.5) * ROW_HEIGHT}px` } });
    }),
  );
}
